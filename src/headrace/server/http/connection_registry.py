"""What the connections of a server share."""

from typing import TYPE_CHECKING, Protocol

from headrace.server.http.responses import Response
from headrace.server.http.routing import Router

if TYPE_CHECKING:
    from headrace.server.http.connection import HttpConnection


class ConnectionRegistry(Protocol):
    """Knows all connections of a server; `date_header` is the header's text of this second."""

    router: Router
    date_header: bytes

    def register(self, connection: "HttpConnection", address: str) -> Response | None:
        """A new connection; what it is told where there are too many."""

    def unregister(self, connection: "HttpConnection") -> None:
        """A connection has ended."""
