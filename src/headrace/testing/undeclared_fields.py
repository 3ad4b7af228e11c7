"""Undeclared fields: production ignores them silently, a test gets a warning."""

import warnings
from collections.abc import Iterable, Sequence


class UndeclaredField(UserWarning):
    """A field that is not declared, which production ignores silently: often a typo."""


def warn_of_undeclared(names: Iterable[str], owner: str, declared: Sequence[str]) -> None:
    """Warn of each undeclared name."""
    for name in sorted({str(name) for name in names} - set(declared)):
        declared_text = f"It has {', '.join(declared)}" if declared else "It has none"
        message = f"{owner} has no {name!r}: it is ignored, as in production. {declared_text}."
        warnings.warn(message, UndeclaredField, stacklevel=2)
