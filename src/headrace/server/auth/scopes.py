"""Scopes: what a token allows its holder, and what a route requires."""

from enum import StrEnum

from headrace.errors import HeadraceError


class Scope(StrEnum):
    """The scope that a route requires; a token has some of them, and `admin` includes all."""

    OPEN = "open"
    READ = "read"
    PREDICT = "predict"
    WRITE = "write"
    ADMIN = "admin"


GRANTABLE_SCOPES = (Scope.READ, Scope.PREDICT, Scope.WRITE, Scope.ADMIN)


class UnknownScopeError(HeadraceError):
    """A scope that does not exist."""


def parse_scopes(text: str) -> frozenset[Scope]:
    """Parse scopes as written on a command line.

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
    """Every scope that these include."""
    return frozenset(GRANTABLE_SCOPES) if Scope.ADMIN in scopes else scopes
