"""A request parser on top of httptools that ignores Upgrade headers.

POST /echo, Upgrade: h2c, content-length: 2 ─▶ httptools treats all bytes after the head as HTTP/2, the body included
                                            └▶ a new parser: the same head without Upgrade, then the bytes after it
"""

from typing import Protocol

import httptools

from headrace.server.http.request_head import head_without_upgrade
from headrace.server.http.responses import Header


class RequestReceiver(Protocol):
    """Has the callbacks of httptools, and the parsed URL and headers."""

    url: bytes
    headers: list[Header]


class RequestParser:
    """Parses requests for a receiver; `on_message_complete` is also called at a head that is then parsed again."""

    def __init__(self, receiver: RequestReceiver) -> None:
        self._receiver = receiver
        self._parser = self._new_parser()

    @property
    def method(self) -> bytes:
        return self._parser.get_method()

    @property
    def version(self) -> str:
        return self._parser.get_http_version()

    @property
    def keeps_alive(self) -> bool:
        """Whether the connection stays open after this request."""
        parser = self._parser
        return parser.should_keep_alive() and self.version != "1.0" and not parser.should_upgrade()

    @property
    def offers_upgrade(self) -> bool:
        """Whether httptools treats the bytes after the head as an offered protocol; a CONNECT is not an offer."""
        return self._parser.should_upgrade() and self.method != b"CONNECT"

    def feed(self, data: bytes) -> bool:
        """Parse bytes; whether the connection has no further HTTP after them."""
        remaining: bytes | None = data
        while remaining is not None:
            try:
                self._parser.feed_data(remaining)
            except httptools.HttpParserUpgrade as upgrade:
                if not self.offers_upgrade:
                    return True
                self._reparse_without_upgrade()
                remaining = remaining[upgrade.args[0] :]
            else:
                remaining = None
        return False

    def _reparse_without_upgrade(self) -> None:
        """Parse the head again without its Upgrade headers."""
        receiver = self._receiver
        head = head_without_upgrade(self.method, receiver.url, self._parser.get_http_version(), receiver.headers)
        self._parser = self._new_parser()
        self._parser.feed_data(head)

    def _new_parser(self) -> httptools.HttpRequestParser:
        parser = httptools.HttpRequestParser(self._receiver)
        # Bytes after the last request are ignored: they must not prevent its response.
        parser.set_dangerous_leniencies(lenient_data_after_close=True)
        return parser
