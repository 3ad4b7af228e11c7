"""What a server reads from, as a URL names it."""

from collections.abc import Sequence

from headrace.declare.app import App
from headrace.declare.features.view import View
from headrace.online_store.memory.memory_store_reader import MemoryStoreReader, OnlineStoreReader
from headrace.online_store.redis.redis_store_reader import RedisStoreReader
from headrace.online_store.registry import REDIS_SCHEMES, create_store, store_scheme
from headrace.online_store.shared_store_reader import SharedStoreReader


def create_store_reader(
    app: App, broker: str, store_url: str, views: Sequence[View] | None = None
) -> OnlineStoreReader:
    """The store a URL names, ready to be started, to read some of an app's views from, or all."""
    read_views = app.views if views is None else tuple(views)
    if store_url == "memory":
        return MemoryStoreReader.create(App(app.name, app.streams, read_views), broker)
    if store_scheme(store_url) in REDIS_SCHEMES:
        return RedisStoreReader(app, broker, store_url, views=read_views)
    return SharedStoreReader(app, broker, create_store(store_url, read_views), read_views)
