"""What servers and scorers read from where the tables are in Redis."""

from collections.abc import Sequence
from urllib.parse import urlsplit

from headrace.declare.app import App
from headrace.declare.views import View
from headrace.store.online_shared import SharedOnline
from headrace.store.redis import RedisStore
from headrace.store.redis_pipe import PipedHashes
from headrace.store.shared import HELD_AT_MOST


class RedisOnline(SharedOnline):
    """A store in Redis, read over one connection of our own where there is one server."""

    def __init__(
        self, app: App, broker: str, url: str, held_at_most: int = HELD_AT_MOST, *, views: Sequence[View] | None = None
    ) -> None:
        piped = PipedHashes(url) if urlsplit(url).scheme == "redis" else None
        read = app.views if views is None else views
        super().__init__(app, broker, RedisStore(url, read, piped, held_at_most), read)
