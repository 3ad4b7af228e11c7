"""Fields that nobody declared: production passes over them in silence, a test is warned."""

import warnings
from collections.abc import Iterable, Sequence


class UndeclaredField(UserWarning):
    """A field that nobody declared, which production passes over in silence: often a slip of the pen."""


def warn_of_undeclared(names: Iterable[str], owner: str, declared: Sequence[str]) -> None:
    """Warn of each name that is not among those declared."""
    for name in sorted({str(name) for name in names} - set(declared)):
        declared_text = f"It has {', '.join(declared)}" if declared else "It has none"
        message = f"{owner} has no {name!r}: it is passed over, as in production. {declared_text}."
        warnings.warn(message, UndeclaredField, stacklevel=2)
