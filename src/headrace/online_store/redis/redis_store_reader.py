"""What servers and scorers read from where the tables are in Redis."""

from collections.abc import Sequence
from urllib.parse import urlsplit

from headrace.declare.app import App
from headrace.declare.features.view import View
from headrace.online_store.redis.pipeline import PipelinedHashReader
from headrace.online_store.redis.redis_store import RedisStore
from headrace.online_store.shared_store import MAX_CACHED_ENTITIES
from headrace.online_store.shared_store_reader import SharedStoreReader


class RedisStoreReader(SharedStoreReader):
    """A store in Redis, read over one connection of our own where there is one server."""

    def __init__(
        self,
        app: App,
        broker: str,
        url: str,
        max_cached_entities: int = MAX_CACHED_ENTITIES,
        *,
        views: Sequence[View] | None = None,
    ) -> None:
        hash_reader = PipelinedHashReader(url) if urlsplit(url).scheme == "redis" else None
        read_views = app.views if views is None else views
        super().__init__(app, broker, RedisStore(url, read_views, hash_reader, max_cached_entities), read_views)
