"""The kinds of stores that processes share, and the one that a URL names."""

import re
from collections.abc import Sequence
from urllib.parse import urlsplit

from headrace.declare.views import View
from headrace.errors import HeadraceError
from headrace.extras import module_of
from headrace.store.redis import RedisStore
from headrace.store.shared import SharedStore
from headrace.store.writes import CLUSTER

MEMORY = "memory"
REDIS_SCHEMES = {"redis", "rediss", "unix", CLUSTER}
OTHERS = {"cassandra"}  # each in the module of its name


class UnknownStore(HeadraceError):
    """A store of another kind than there are."""


def store_of(url: str, views: Sequence[View]) -> SharedStore:
    """The shared store that a URL names; what others need is not imported."""
    kind = kind_of(url)
    if kind in REDIS_SCHEMES:
        return RedisStore(url, views)
    store: SharedStore = getattr(module_of("store", kind, f"--store {kind}://…"), f"{kind.title()}Store")(url, views)
    return store


def require_store(url: str) -> None:
    """Refuse a store of another kind than there are, or one whose driver is missing."""
    if url != MEMORY and (kind := kind_of(url)) not in REDIS_SCHEMES:
        module_of("store", kind, f"--store {kind}://…")


def kind_of(url: str) -> str:
    """The scheme of a store's URL, which is one of those there are."""
    scheme = _scheme_of(url)
    if scheme in REDIS_SCHEMES | OTHERS:
        return scheme
    beginning = re.match(r"[A-Za-z+]*(?:://)?", url)  # the rest may hold a password
    raise UnknownStore(
        f"--store {beginning and beginning[0]!r} is not a store. Write memory, redis://HOST:PORT, "
        "redis+cluster://HOST:PORT or cassandra://HOST:PORT/KEYSPACE."
    )


def _scheme_of(url: str) -> str:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise UnknownStore(
            "--store is no URL. Write redis://USER:PASSWORD@HOST:PORT, with %2F for a / and %40 for a @ in it."
        ) from None
    return parts.scheme
