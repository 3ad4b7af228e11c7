"""What a server reads from, as a URL names it."""

from collections.abc import Sequence

from headrace.declare.app import App
from headrace.declare.views import View
from headrace.store.kinds import REDIS_SCHEMES, kind_of, store_of
from headrace.store.online import MemoryOnline, Online
from headrace.store.online_redis import RedisOnline
from headrace.store.online_shared import SharedOnline


def online_of(app: App, broker: str, store_url: str, views: Sequence[View] | None = None) -> Online:
    """The store a URL names, ready to be started, to read some of an app's views from, or all."""
    read = app.views if views is None else tuple(views)
    if store_url == "memory":
        return MemoryOnline.following(App(app.name, app.streams, read), broker)
    if kind_of(store_url) in REDIS_SCHEMES:
        return RedisOnline(app, broker, store_url, views=read)
    return SharedOnline(app, broker, store_of(store_url, read), read)
