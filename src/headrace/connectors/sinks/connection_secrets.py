"""Secrets: read from the environment when they are needed, and in no text."""

import os
from urllib.parse import urlsplit

from headrace.connectors.sinks.writer import TargetUnavailable
from headrace.declare.streams.external_source import ENV_PREFIX

REDACTED = "…"


def resolve_address(reference: str, label: str) -> str:
    """The address that is written, or that the named variable has."""
    if not reference.startswith(ENV_PREFIX):
        return reference
    name = reference.removeprefix(ENV_PREFIX)
    address = os.environ.get(name, "")
    if not address:
        raise TargetUnavailable(f"{label}: the variable {name} is not set. Set it to the address, and start again.")
    return address


def redact_secret(text: object, secret: str) -> str:
    """A text without an address, its password and its path, whoever has quoted them.

    >>> redact_secret('invalid "postgres://me:hush@db/x": hush', "postgres://me:hush@db/x")
    'invalid "…": …'
    """
    redacted = str(text).replace(secret, REDACTED)
    try:
        password = urlsplit(secret).password
    except ValueError:
        password = None
    return redacted.replace(password, REDACTED) if password else redacted
