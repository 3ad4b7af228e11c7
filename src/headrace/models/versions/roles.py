"""The roles of a model's versions, champion and challengers, and their history: the document champion.json.

{"champion": "2", "earlier": ["1"], "challengers": {"3": 0.1, "4": 0.0}, "history": [{"did": "promote", …}, …]}

Every challenger scores each vector. At most one of them also serves, for a share of the keys.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from headrace.errors import HeadraceError

VERSION_PATTERN = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)
MAX_ROLES_BYTES = 1 << 20
MAX_HISTORY = 1000


class InvalidRolesFileError(HeadraceError):
    """An invalid file of roles."""


@dataclass(frozen=True)
class VersionRoles:
    """The champion, its predecessors, the challengers with their shares, and the history."""

    champion: str | None = None
    earlier: tuple[str, ...] = ()
    challengers: Mapping[str, float] = field(default_factory=dict)
    history: tuple[dict[str, Any], ...] = ()

    @property
    def split_challenger(self) -> str | None:
        """The challenger that serves some keys."""
        return next((version for version, share in self.challengers.items() if share), None)

    def describe_role(self, version: str) -> str:
        """The role of a version as text."""
        if version == self.champion:
            return "champion"
        share = self.challengers.get(version)
        return "" if share is None else f"split {100 * share:.4g}%" if share else "shadow"

    def with_promotion(self, version: str) -> "VersionRoles":
        earlier = self.earlier if self.champion is None else (*self.earlier, self.champion)
        return self._with_champion("promote", version, earlier)

    def with_rollback(self) -> "VersionRoles":
        return self._with_champion("rollback", self.earlier[-1], self.earlier[:-1])

    def with_challenger(self, version: str, share: float) -> "VersionRoles":
        entry = {"did": "split", "share": share} if share else {"did": "shadow"}
        return replace(self._with_history_entry(version, **entry), challengers={**self.challengers, version: share})

    def without_challenger(self, version: str) -> "VersionRoles":
        return replace(self._with_history_entry(version, did="withdraw"), challengers=self._other_challengers(version))

    def _with_champion(self, action: str, version: str, earlier: tuple[str, ...]) -> "VersionRoles":
        noted_roles = self._with_history_entry(version, did=action)
        return replace(
            noted_roles, champion=version, earlier=earlier[-MAX_HISTORY:], challengers=self._other_challengers(version)
        )

    def _other_challengers(self, version: str) -> dict[str, float]:
        return {other: share for other, share in self.challengers.items() if other != version}

    def _with_history_entry(self, version: str, **details: Any) -> "VersionRoles":
        entry = {"at": datetime.now(UTC).isoformat(timespec="milliseconds"), **details, "version": version}
        return replace(self, history=(*self.history, entry)[-MAX_HISTORY:])


def parse_roles(content: bytes) -> VersionRoles | None:
    """Parse the document of a file, from any writer; None where it is invalid."""
    if len(content) > MAX_ROLES_BYTES:
        return None
    try:
        document: Any = json.loads(content)
        challengers = dict(document.get("challengers", {}))
        roles = VersionRoles(document["champion"], tuple(document["earlier"]), challengers, tuple(document["history"]))
    except (ValueError, RecursionError, TypeError, KeyError, AttributeError):
        return None
    return roles if _is_valid(roles) else None


def _is_valid(roles: VersionRoles) -> bool:
    versions = [roles.champion, *roles.earlier, *roles.challengers]
    shares = roles.challengers.values()
    return (
        all(isinstance(version, str) and VERSION_PATTERN.fullmatch(version) for version in versions)
        and all(type(share) in {int, float} and 0 <= share <= 1 for share in shares)
        and sum(map(bool, shares)) <= 1
        and roles.champion not in roles.challengers
        and all(isinstance(entry, dict) for entry in roles.history)
    )
