"""The store that a URL names."""

import re
from urllib.parse import urlsplit

from headrace.declare.app import App
from headrace.errors import HeadraceError
from headrace.store.online import MemoryOnline, Online
from headrace.store.online_redis import RedisOnline
from headrace.store.writes import CLUSTER

REDIS_SCHEMES = {"redis", "rediss", "unix", CLUSTER}


class UnknownStore(HeadraceError):
    """A store of another kind than there are."""


def online_of(app: App, broker: str, store_url: str) -> Online:
    """The store a URL names, ready to be started."""
    if store_url == "memory":
        return MemoryOnline.following(app, broker)
    if _scheme_of(store_url) in REDIS_SCHEMES:
        return RedisOnline(app, broker, store_url)
    beginning = re.match(r"[A-Za-z+]*(?:://)?", store_url)  # the rest may hold a password
    raise UnknownStore(
        f"--store {beginning and beginning[0]!r} is not a store. Write memory, redis://HOST:PORT or redis+cluster://HOST:PORT."
    )


def _scheme_of(store_url: str) -> str:
    try:
        parts = urlsplit(store_url)
        _ = parts.port
    except ValueError:
        raise UnknownStore(
            "--store is no URL. Write redis://USER:PASSWORD@HOST:PORT, with %2F for a / and %40 for a @ in it."
        ) from None
    return parts.scheme
