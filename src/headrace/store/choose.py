"""The store that a URL names."""

from urllib.parse import urlsplit

from headrace.declare.app import App
from headrace.errors import HeadraceError
from headrace.store.online import MemoryOnline, Online
from headrace.store.online_redis import RedisOnline

REDIS_SCHEMES = {"redis", "rediss", "unix"}


class UnknownStore(HeadraceError):
    """A store of another kind than there are."""


def online_of(app: App, broker: str, store_url: str) -> Online:
    """The store a URL names, ready to be started."""
    if store_url == "memory":
        return MemoryOnline.following(app, broker)
    if urlsplit(store_url).scheme in REDIS_SCHEMES:
        return RedisOnline(app, broker, store_url)
    raise UnknownStore(f"--store {store_url!r} is not a store. Write memory or redis://HOST:PORT.")
