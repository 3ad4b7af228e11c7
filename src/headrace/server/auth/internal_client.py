"""How Headrace's own parts authenticate to its server: with a token signed by their state folder, or one given."""

import os
import time
import urllib.request
from dataclasses import dataclass
from http.client import HTTPResponse
from pathlib import Path
from typing import Any

from headrace.server.auth.request_guard import INTERNAL_CLIENT
from headrace.server.auth.signed_tokens import TokenPurpose, TokenSigner
from headrace.server.http.tls import pinned_tls_context

TOKEN_VARIABLE = "HEADRACE_TOKEN"  # noqa: S105  # a name
TOKEN_TTL_SECONDS = 60


@dataclass(frozen=True)
class InternalClient:
    """The address of a server, and the state folder and certificate it shares with its clients."""

    url: str
    state: Path | None = None
    certificate: Path | None = None

    def get(self, path: str, timeout_s: float) -> HTTPResponse:
        """The response to a GET from the server itself: without a proxy, and without following redirects."""
        handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({}), NoRedirectHandler()]
        if self.certificate is not None:
            handlers.append(urllib.request.HTTPSHandler(context=pinned_tls_context(self.certificate)))
        request = urllib.request.Request(f"{self.url}{path}", headers=self._headers())  # noqa: S310  # our own server
        response: HTTPResponse = urllib.request.build_opener(*handlers).open(request, timeout=timeout_s)
        return response

    def _headers(self) -> dict[str, str]:
        token = os.environ.get(TOKEN_VARIABLE)
        if not token and self.state is not None:
            token = TokenSigner.from_state_folder(self.state).sign(
                TokenPurpose.INTERNAL, INTERNAL_CLIENT, int(time.time()) + TOKEN_TTL_SECONDS
            )
        return {"Authorization": f"Bearer {token}"} if token else {}


class NoRedirectHandler(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: the token in the header is for one server alone."""

    def redirect_request(self, *_arguments: Any) -> None:
        return None
