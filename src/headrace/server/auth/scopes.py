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


GRANTABLE_SCOPES = (Scope.READ, Scope.PREDICT, Scope.WRITE, Scope.ADMIN)


class UnknownScopeError(HeadraceError):
    """A scope that there is not."""


def parse_scopes(text: str) -> frozenset[Scope]:
    """Scopes as they are written on a command line.

    >>> sorted(parse_scopes("read, predict"))
    [<Scope.PREDICT: 'predict'>, <Scope.READ: 'read'>]
    """
    words = [word.strip() for word in text.split(",")]
    for word in words:
        if word not in GRANTABLE_SCOPES:
            raise UnknownScopeError(
                f"--scope {word!r} is not one. Write some of {', '.join(GRANTABLE_SCOPES)}, with commas between them."
            )
    return frozenset(map(Scope, words))


def expand_scopes(scopes: frozenset[Scope]) -> frozenset[Scope]:
    """All that a token with these scopes may do."""
    return frozenset(GRANTABLE_SCOPES) if Scope.ADMIN in scopes else scopes
