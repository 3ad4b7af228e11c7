"""httptools' parser of requests, which ignores offers of other protocols.

POST /echo, Upgrade: h2c, content-length: 2 ─▶ the parser takes what follows the head for HTTP/2, the body included
                                            └▶ a new parser: the same head without the offer, then what follows it
"""

from typing import Protocol

import httptools

from headrace.serve.answers import Header
from headrace.serve.request_head import head_without_upgrade


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
    def keeps(self) -> bool:
        """Whether the connection goes on after this request."""
        parser = self._parser
        return parser.should_keep_alive() and parser.get_http_version() != "1.0" and not parser.should_upgrade()

    @property
    def offers_upgrade(self) -> bool:
        """Whether what follows the head is taken for another protocol that was offered; CONNECT asks for one."""
        return self._parser.should_upgrade() and self.method != b"CONNECT"

    def feed(self, data: bytes) -> bool:
        """Parse bytes; gives whether nothing that follows them is HTTP."""
        rest: bytes | None = data
        while rest is not None:
            try:
                self._parser.feed_data(rest)
            except httptools.HttpParserUpgrade as upgrade:
                if not self.offers_upgrade:
                    return True
                self._begin_again()
                rest = rest[upgrade.args[0] :]
            else:
                rest = None
        return False

    def _begin_again(self) -> None:
        """Parse the head once more, without its offer."""
        told = self._receiver
        head = head_without_upgrade(self.method, told.url, self._parser.get_http_version(), told.headers)
        self._parser = self._new_parser()
        self._parser.feed_data(head)

    def _new_parser(self) -> httptools.HttpRequestParser:
        parser = httptools.HttpRequestParser(self._receiver)
        # What follows a last request is passed over: it must not keep that one from being answered.
        parser.set_dangerous_leniencies(lenient_data_after_close=True)
        return parser
