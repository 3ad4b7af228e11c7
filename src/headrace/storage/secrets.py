"""Secrets: given directly, or by the name of an environment variable or a file."""

import os
from pathlib import Path

from headrace.errors import HeadraceError

ENV_PREFIX, FILE_PREFIX = "env:", "file:"


class SecretMissing(HeadraceError):
    """A secret is not where its reference points."""


def resolve_secret(reference: str, label: str) -> str:
    """A secret as given, or from the variable of `env:NAME`, or from the first line of `file:PATH`."""
    if reference.startswith(ENV_PREFIX):
        return _read_variable(reference.removeprefix(ENV_PREFIX), label)
    if reference.startswith(FILE_PREFIX):
        return _read_first_line(Path(reference.removeprefix(FILE_PREFIX)), label)
    return reference


def _read_variable(name: str, label: str) -> str:
    value = os.environ.get(name, "")
    if not value:
        raise SecretMissing(f"{label}: the variable {name} is not set. Set it, and start again.")
    return value


def _read_first_line(path: Path, label: str) -> str:
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SecretMissing(
            f"{label}: {path} cannot be read: {type(error).__name__}. Make it readable for this user."
        ) from None
    if not lines or not lines[0]:
        raise SecretMissing(f"{label}: {path} is empty. Write the secret on its first line.")
    return lines[0]
