"""Secrets: written where they are kept, read when they are needed."""

import os
from pathlib import Path

from headrace.errors import HeadraceError

ENV, FILE = "env:", "file:"


class SecretMissing(HeadraceError):
    """A secret is not where it is said to be."""


def secret_in(written: str, what: str) -> str:
    """A secret as it is written, as the variable of `env:NAME` has it, or as the first line of `file:PATH` does."""
    if written.startswith(ENV):
        return _in_environment(written.removeprefix(ENV), what)
    if written.startswith(FILE):
        return _in_file(Path(written.removeprefix(FILE)), what)
    return written


def _in_environment(name: str, what: str) -> str:
    found = os.environ.get(name, "")
    if not found:
        raise SecretMissing(f"{what}: the variable {name} is not set. Set it, and start again.")
    return found


def _in_file(path: Path, what: str) -> str:
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SecretMissing(f"{what}: {path} cannot be read: {type(error).__name__}. Let us read it.") from None
    if not lines or not lines[0]:
        raise SecretMissing(f"{what}: {path} is empty. Write the secret on its first line.")
    return lines[0]
