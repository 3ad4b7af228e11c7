"""Who may ask: refused before anything starts where others could, and how the parts of an app ask its server."""

import re

from headrace.cli.settings import BadSetting, Settings
from headrace.errors import HeadraceError
from headrace.serve.door import Door
from headrace.serve.listen import is_reachable
from headrace.serve.tls import own_tls, server_tls
from headrace.serve.tokens import read_tokens

_NAME = re.compile(r"[A-Za-z0-9._-]+(:[0-9]+)?|\[[0-9A-Fa-f:.]+\](:[0-9]+)?")


class Unguarded(HeadraceError):
    """An address that others can reach, without what keeps them out."""


def require_guarded(settings: Settings) -> None:
    """Refuse to listen where others could ask without a token, or read on the way what is said."""
    access = settings.access
    server_tls(access)
    for name in access.names:
        if not _NAME.fullmatch(name):
            raise BadSetting(
                f"--allow-host {name!r} is no name. Write it as in Host: shop.example or shop.example:8443."
            )
    tokens = read_tokens(settings.state)
    can_others = access.is_behind_proxy or is_reachable(settings.host, settings.port)
    if can_others and not tokens:
        raise Unguarded(
            f"Others can reach --http {settings.http}, and there is no token that keeps them out. Make one first: "
            f"headrace token create NAME --scope read,predict --state {settings.state}"
        )
    if can_others and not access.is_secret:
        raise Unguarded(
            f"Others can reach --http {settings.http}, and read on the way what is said there. "
            "Give --tls-cert FILE --tls-key FILE, or --behind-proxy if a proxy in front of it does TLS."
        )


def door_of(settings: Settings) -> Door:
    """How a part asks the server of its app."""
    certificate = settings.access.tls_cert
    if certificate is not None:
        own_tls(certificate)
    return Door(settings.url, settings.state, certificate)
