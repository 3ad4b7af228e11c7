"""The kinds of stores that processes share, and the one that a URL names."""

import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from headrace.declare.features.view import View
from headrace.errors import HeadraceError
from headrace.online_store.redis.redis_store import RedisStore
from headrace.online_store.redis.script_writer import CLUSTER_SCHEME
from headrace.online_store.shared_store import SharedStore
from headrace.plugins import import_plugin

MEMORY = "memory"
REDIS_SCHEMES = {"redis", "rediss", "unix", CLUSTER_SCHEME}
DRIVER_SCHEMES = {"cassandra"}  # each in the module of its name


class UnknownStoreError(HeadraceError):
    """A store of another kind than there are."""


def create_store(url: str, views: Sequence[View]) -> SharedStore:
    """The shared store that a URL names; what others need is not imported."""
    scheme = store_scheme(url)
    if scheme in REDIS_SCHEMES:
        return RedisStore(url, views)
    store: SharedStore = getattr(_store_module(scheme), f"{scheme.title()}Store")(url, views)
    return store


def require_store(url: str) -> None:
    """Refuse a store of another kind than there are, or one whose driver is missing."""
    if url != MEMORY and (scheme := store_scheme(url)) not in REDIS_SCHEMES:
        _store_module(scheme)


def _store_module(scheme: str) -> Any:
    return import_plugin(f"online_store.{scheme}", scheme, f"--store {scheme}://…", f"{scheme}_store")


def store_scheme(url: str) -> str:
    """The scheme of a store's URL, which is one of those there are."""
    scheme = _parse_scheme(url)
    if scheme in REDIS_SCHEMES | DRIVER_SCHEMES:
        return scheme
    url_prefix = re.match(r"[A-Za-z+]*(?:://)?", url)  # the rest may hold a password
    raise UnknownStoreError(
        f"--store {url_prefix and url_prefix[0]!r} is not a store. Write memory, redis://HOST:PORT, "
        "redis+cluster://HOST:PORT or cassandra://HOST:PORT/KEYSPACE."
    )


def _parse_scheme(url: str) -> str:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise UnknownStoreError(
            "--store is no URL. Write redis://USER:PASSWORD@HOST:PORT, with %2F for a / and %40 for a @ in it."
        ) from None
    return parts.scheme
