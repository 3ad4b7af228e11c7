"""The registry that the connections of a server share."""

from typing import TYPE_CHECKING, Protocol

from headrace.server.http.responses import Response
from headrace.server.http.routing import Router

if TYPE_CHECKING:
    from headrace.server.http.connection import HttpConnection


class ConnectionRegistry(Protocol):
    """Knows all connections of a server; `date_header` is the current value of the Date header."""

    router: Router
    date_header: bytes

    def register(self, connection: "HttpConnection", address: str) -> Response | None:
        """Register a new connection; the response that rejects its requests if there are too many connections."""

    def unregister(self, connection: "HttpConnection") -> None:
        """Remove a closed connection."""
