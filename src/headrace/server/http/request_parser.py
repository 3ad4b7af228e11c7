"""httptools' parser of requests, which ignores offers of other protocols.

POST /echo, Upgrade: h2c, content-length: 2 ─▶ the parser takes what follows the head for HTTP/2, the body included
                                            └▶ a new parser: the same head without the offer, then what follows it
"""

from typing import Protocol

import httptools

from headrace.server.http.request_head import head_without_upgrade
from headrace.server.http.responses import Header


class RequestReceiver(Protocol):
    """Has the callbacks of httptools, and what they told of the head."""

    url: bytes
    headers: list[Header]


class RequestParser:
    """Tells a receiver of requests; it is told that one is complete also where its body comes with the next parser."""

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
        """Whether the connection goes on after this request."""
        parser = self._parser
        return parser.should_keep_alive() and self.version != "1.0" and not parser.should_upgrade()

    @property
    def offers_upgrade(self) -> bool:
        """Whether what follows the head is taken for another protocol that was offered; CONNECT asks for one."""
        return self._parser.should_upgrade() and self.method != b"CONNECT"

    def feed(self, data: bytes) -> bool:
        """Parse bytes; gives whether nothing that follows them is HTTP."""
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
        """Parse the head once more, without its offer."""
        receiver = self._receiver
        head = head_without_upgrade(self.method, receiver.url, self._parser.get_http_version(), receiver.headers)
        self._parser = self._new_parser()
        self._parser.feed_data(head)

    def _new_parser(self) -> httptools.HttpRequestParser:
        parser = httptools.HttpRequestParser(self._receiver)
        # What follows a last request is passed over: it must not keep that one from being answered.
        parser.set_dangerous_leniencies(lenient_data_after_close=True)
        return parser
