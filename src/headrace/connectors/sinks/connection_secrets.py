"""Resolves addresses that hold secrets, and redacts them from texts."""

import os
from urllib.parse import urlsplit

from headrace.connectors.sinks.writer import TargetUnavailable
from headrace.declare.streams.external_source import ENV_PREFIX

REDACTED = "…"


def resolve_address(reference: str, label: str) -> str:
    """The address itself, or the value of the environment variable that it references."""
    if not reference.startswith(ENV_PREFIX):
        return reference
    name = reference.removeprefix(ENV_PREFIX)
    address = os.environ.get(name, "")
    if not address:
        raise TargetUnavailable(f"{label}: the variable {name} is not set. Set it to the address, and restart.")
    return address


def redact_secret(text: object, secret: str) -> str:
    """Redact an address and its password from a text.

    >>> redact_secret('invalid "postgres://me:hush@db/x": hush', "postgres://me:hush@db/x")
    'invalid "…": …'
    """
    redacted = str(text).replace(secret, REDACTED)
    try:
        password = urlsplit(secret).password
    except ValueError:
        password = None
    return redacted.replace(password, REDACTED) if password else redacted
