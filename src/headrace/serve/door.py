"""How Headrace's own parts ask its server: with a pass of the state folder they share, or a token they were given."""

import os
import time
import urllib.request
from dataclasses import dataclass
from http.client import HTTPResponse
from pathlib import Path
from typing import Any

from headrace.serve.guard import OWN
from headrace.serve.passes import Passes, Purpose
from headrace.serve.tls import own_tls

TOKEN_VARIABLE = "HEADRACE_TOKEN"  # noqa: S105  # a name
PASS_SECONDS = 60


@dataclass(frozen=True)
class Door:
    """Where a server is, and the folder and the certificate it has in common with whoever asks."""

    url: str
    state: Path | None = None
    certificate: Path | None = None

    def open(self, path: str, timeout_s: float) -> HTTPResponse:
        """The answer to a GET, from nowhere but the server itself: through no proxy, and by no redirect."""
        handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({}), NoRedirect()]
        if self.certificate is not None:
            handlers.append(urllib.request.HTTPSHandler(context=own_tls(self.certificate)))
        asked = urllib.request.Request(f"{self.url}{path}", headers=self._headers())  # noqa: S310  # our own server
        answer: HTTPResponse = urllib.request.build_opener(*handlers).open(asked, timeout=timeout_s)
        return answer

    def _headers(self) -> dict[str, str]:
        token = os.environ.get(TOKEN_VARIABLE)
        if not token and self.state is not None:
            token = Passes.of(self.state).signed(Purpose.OWN, OWN, int(time.time()) + PASS_SECONDS)
        return {"Authorization": f"Bearer {token}"} if token else {}


class NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows nobody: what is told in a header is for one server alone."""

    def redirect_request(self, *_told: Any) -> None:
        return None
