"""Creates the online store reader for a store URL."""

from collections.abc import Sequence

from headrace.declare.app import App
from headrace.declare.features.view import View
from headrace.online_store.memory.memory_store_reader import MemoryStoreReader, OnlineStoreReader
from headrace.online_store.registry import find_store
from headrace.online_store.shared_store_reader import SharedStoreReader


def create_store_reader(
    app: App, broker: str, store_url: str, views: Sequence[View] | None = None
) -> OnlineStoreReader:
    """The store a URL names, ready to be started, to read some of an app's views from, or all."""
    read_views = app.views if views is None else tuple(views)
    entry = find_store(store_url)
    if not entry.is_shared:
        return MemoryStoreReader.create(App(app.name, app.streams, read_views), broker)
    store = entry.load_store().open_for_reading(store_url, read_views)
    return SharedStoreReader(app, broker, store, read_views)
