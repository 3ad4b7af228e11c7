"""Secrets: read from the environment when they are needed, and in no text."""

import os
from urllib.parse import urlsplit

from headrace.declare.sources import ENV
from headrace.sink.writer import Away

HIDDEN = "…"


def secret_of(written: str, what: str) -> str:
    """The address that is written, or that the named variable has."""
    if not written.startswith(ENV):
        return written
    name = written.removeprefix(ENV)
    found = os.environ.get(name, "")
    if not found:
        raise Away(f"{what}: the variable {name} is not set. Set it to the address, and start again.")
    return found


def without(text: object, secret: str) -> str:
    """A text without an address, its password and its path, whoever has quoted them.

    >>> without('invalid "postgres://me:hush@db/x": hush', "postgres://me:hush@db/x")
    'invalid "…": …'
    """
    shown = str(text).replace(secret, HIDDEN)
    try:
        password = urlsplit(secret).password
    except ValueError:
        password = None
    return shown.replace(password, HIDDEN) if password else shown
