"""What a server reads from, as a URL names it."""

from headrace.declare.app import App
from headrace.store.kinds import REDIS_SCHEMES, kind_of, store_of
from headrace.store.online import MemoryOnline, Online
from headrace.store.online_redis import RedisOnline
from headrace.store.online_shared import SharedOnline


def online_of(app: App, broker: str, store_url: str) -> Online:
    """The store a URL names, ready to be started."""
    if store_url == "memory":
        return MemoryOnline.following(app, broker)
    if kind_of(store_url) in REDIS_SCHEMES:
        return RedisOnline(app, broker, store_url)
    return SharedOnline(app, broker, store_of(store_url, app.views))
