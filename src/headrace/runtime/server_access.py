"""Access to the server: rejects an insecure configuration before start, and authenticates the app's own parts."""

import re

from headrace.errors import HeadraceError
from headrace.runtime.settings import BadSetting, Settings
from headrace.server.auth.api_tokens import read_tokens
from headrace.server.auth.internal_client import InternalClient
from headrace.server.http.listener import is_reachable
from headrace.server.http.tls import pinned_tls_context, server_tls_context

_HOST_PATTERN = re.compile(r"[A-Za-z0-9._-]+(:[0-9]+)?|\[[0-9A-Fa-f:.]+\](:[0-9]+)?")


class InsecureServerError(HeadraceError):
    """A public address without tokens or TLS."""


def require_secure_server(settings: Settings) -> None:
    """Reject a public address without tokens, or without TLS."""
    access = settings.access
    server_tls_context(access)
    for name in access.allowed_hosts:
        if not _HOST_PATTERN.fullmatch(name):
            raise BadSetting(
                f"--allow-host {name!r} is no name. Write it as in Host: shop.example or shop.example:8443."
            )
    tokens = read_tokens(settings.state)
    is_reachable_by_others = access.is_behind_proxy or is_reachable(settings.host, settings.port)
    if is_reachable_by_others and not tokens:
        raise InsecureServerError(
            f"Others can reach --http {settings.http}, and there is no token that keeps them out. Make one first: "
            f"headrace token create NAME --scope read,predict --state {settings.state}"
        )
    if is_reachable_by_others and not access.is_encrypted:
        raise InsecureServerError(
            f"Others can reach --http {settings.http}, and read on the way what is said there. "
            "Give --tls-cert FILE --tls-key FILE, or --behind-proxy if a proxy in front of it does TLS."
        )


def internal_client(settings: Settings) -> InternalClient:
    """The client of a part for the server of its app."""
    certificate = settings.access.tls_cert
    if certificate is not None:
        pinned_tls_context(certificate)
    return InternalClient(settings.url, settings.state, certificate)
