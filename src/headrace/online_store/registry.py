"""The registry of online stores: each entry is a value of `--store`, and the class that stores the tables there."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from headrace.declare.features.view import View
from headrace.errors import HeadraceError
from headrace.plugins import Driver, PluginEntry, PluginRegistry, join_words

if TYPE_CHECKING:
    from headrace.online_store.shared_store import SharedStore


@dataclass(frozen=True, kw_only=True)
class StoreEntry(PluginEntry[Any]):
    """A store; its name is the scheme of its URL. `location` and `filled_by` are its row in the docs."""

    url_form: str  # for help, errors and docs
    location: str
    filled_by: str = "the part `apply`, in any number of copies"
    aliases: tuple[str, ...] = ()  # schemes that name it as well
    is_shared: bool = True  # a server that processes share, filled by the part `apply`

    @property
    def schemes(self) -> tuple[str, ...]:
        return (self.name, *self.aliases)

    def load_store(self) -> "type[SharedStore]":
        """The class of a store that processes share."""
        store_class: type[SharedStore] = self.load(f"--store {self.name}://…")
        return store_class


MEMORY = StoreEntry(
    "memory",
    "the server's own memory",
    "headrace.online_store.memory.memory_store:MemoryStore",
    url_form="memory",
    location="in each serving process; the fastest",
    filled_by="the server itself",
    is_shared=False,
)
ONLINE_STORES = PluginRegistry(
    "online store",
    "stores.md",
    [
        MEMORY,
        StoreEntry(
            "redis",
            "Redis",
            "headrace.online_store.redis.redis_store:RedisStore",
            url_form="redis://HOST:PORT",
            location="in one Redis or Valkey, shared by all processes",
            aliases=("rediss", "unix"),
        ),
        StoreEntry(
            "redis+cluster",
            "Redis Cluster",
            "headrace.online_store.redis.redis_store:RedisStore",
            url_form="redis+cluster://HOST:PORT",
            location="in a Redis Cluster, found by any of its servers",
        ),
        StoreEntry(
            "cassandra",
            "Apache Cassandra",
            "headrace.online_store.cassandra.cassandra_store:CassandraStore",
            Driver("cassandra", extra="cassandra"),
            url_form="cassandra://HOST:PORT/KEYSPACE",
            location="in a table of your keyspace, found by any of its servers: `HOST,HOST:PORT`",
        ),
    ],
)
_SHARED_STORES = {scheme: entry for entry in ONLINE_STORES if entry.is_shared for scheme in entry.schemes}
STORE_URL_FORMS = tuple(entry.url_form for entry in ONLINE_STORES)
STORE_METAVAR = "|".join(entry.name + ("://…" if entry.is_shared else "") for entry in ONLINE_STORES)


class UnknownStoreError(HeadraceError):
    """An unknown kind of store."""

    def __init__(self, problem: str, remedy: str) -> None:
        self.problem, self.remedy = problem, remedy
        super().__init__(f"{problem}. Write {remedy}.")


def find_store(url: str) -> StoreEntry:
    """The entry for a store URL."""
    if url == MEMORY.name:
        return MEMORY
    entry = _SHARED_STORES.get(_parse_scheme(url))
    if entry is None:
        url_prefix = re.match(r"[A-Za-z+]*(?:://)?", url)  # the rest may hold a password
        raise UnknownStoreError(f"--store {url_prefix and url_prefix[0]!r} is not a store", join_words(STORE_URL_FORMS))
    return entry


def create_store(url: str, views: Sequence[View]) -> "SharedStore":
    """Create the shared store of a URL, for its writers; imports only the drivers that it needs."""
    return find_store(url).load_store()(url, views)


def require_store(url: str) -> None:
    """Reject an unknown kind of store, or one whose driver is missing."""
    entry = find_store(url)
    if entry.is_shared:
        entry.load_store()


def mask_store_url(url: str) -> str:
    """A store's address, without the user name and password of its URL.

    >>> mask_store_url("redis://me:hush@cache:6379/0"), mask_store_url("memory")
    ('redis://cache:6379', 'memory')
    """
    scheme, separator, rest = url.partition("://")
    return scheme + separator + re.split("[/?]", rest.rpartition("@")[2])[0]


def _parse_scheme(url: str) -> str:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise UnknownStoreError(
            "--store is not a URL", "redis://USER:PASSWORD@HOST:PORT, with %2F for a / and %40 for a @ in it"
        ) from None
    return parts.scheme
