"""What a token lets its holder do, and what a route asks for: the same five words."""

from enum import StrEnum

from headrace.errors import HeadraceError


class Scope(StrEnum):
    """What is asked of whoever asks; a token has some of them, and one with `admin` has all."""

    OPEN = "open"
    READ = "read"
    PREDICT = "predict"
    WRITE = "write"
    ADMIN = "admin"


GIVEN = (Scope.READ, Scope.PREDICT, Scope.WRITE, Scope.ADMIN)


class BadScope(HeadraceError):
    """A scope that there is not."""


def scopes_of(written: str) -> frozenset[Scope]:
    """Scopes as they are written on a command line.

    >>> sorted(scopes_of("read, predict"))
    [<Scope.PREDICT: 'predict'>, <Scope.READ: 'read'>]
    """
    words = [word.strip() for word in written.split(",")]
    for word in words:
        if word not in GIVEN:
            raise BadScope(f"--scope {word!r} is not one. Write some of {', '.join(GIVEN)}, with commas between them.")
    return frozenset(map(Scope, words))


def reach_of(scopes: frozenset[Scope]) -> frozenset[Scope]:
    """All that a token with these scopes may do."""
    return frozenset(GIVEN) if Scope.ADMIN in scopes else scopes
