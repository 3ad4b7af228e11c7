"""Who is champion, who challenges it, and what was done when: the document champion.json.

{"champion": "2", "earlier": ["1"], "challengers": {"3": 0.1, "4": 0.0}, "history": [{"did": "promote", …}, …]}

Every challenger is scored on each vector. At most one of them also answers, for a share of the keys.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from headrace.errors import HeadraceError

VERSION = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)
LARGEST_BYTES = 1 << 20
LONGEST_HISTORY = 1000


class BrokenChampion(HeadraceError):
    """The file that names a champion is not one."""


@dataclass(frozen=True)
class Champion:
    """Which version is served, those it came after, those that challenge it with their shares, and what was done."""

    champion: str | None = None
    earlier: tuple[str, ...] = ()
    challengers: Mapping[str, float] = field(default_factory=dict)
    history: tuple[dict[str, Any], ...] = ()

    @property
    def split(self) -> str | None:
        """The challenger that answers for some keys."""
        return next((version for version, share in self.challengers.items() if share), None)

    def role(self, version: str) -> str:
        """What a version is, in a word or two."""
        if version == self.champion:
            return "champion"
        share = self.challengers.get(version)
        return "" if share is None else f"split {100 * share:.4g}%" if share else "shadow"

    def promoted(self, version: str) -> "Champion":
        earlier = self.earlier if self.champion is None else (*self.earlier, self.champion)
        return self._crowned("promote", version, earlier)

    def rolled_back(self) -> "Champion":
        return self._crowned("rollback", self.earlier[-1], self.earlier[:-1])

    def challenged(self, version: str, share: float) -> "Champion":
        did = {"did": "split", "share": share} if share else {"did": "shadow"}
        return replace(self._noted(version, **did), challengers={**self.challengers, version: share})

    def withdrawn(self, version: str) -> "Champion":
        return replace(self._noted(version, did="withdraw"), challengers=self._without(version))

    def _crowned(self, did: str, version: str, earlier: tuple[str, ...]) -> "Champion":
        done = self._noted(version, did=did)
        return replace(done, champion=version, earlier=earlier[-LONGEST_HISTORY:], challengers=self._without(version))

    def _without(self, version: str) -> dict[str, float]:
        return {other: share for other, share in self.challengers.items() if other != version}

    def _noted(self, version: str, **did: Any) -> "Champion":
        done = {"at": datetime.now(UTC).isoformat(timespec="milliseconds"), **did, "version": version}
        return replace(self, history=(*self.history, done)[-LONGEST_HISTORY:])


def parsed(content: bytes) -> Champion | None:
    """The document of a file, whoever wrote it; None where it is none."""
    if len(content) > LARGEST_BYTES:
        return None
    try:
        written: Any = json.loads(content)
        challengers = dict(written.get("challengers", {}))
        found = Champion(written["champion"], tuple(written["earlier"]), challengers, tuple(written["history"]))
    except (ValueError, RecursionError, TypeError, KeyError, AttributeError):
        return None
    return found if _is_whole(found) else None


def _is_whole(found: Champion) -> bool:
    versions = [found.champion, *found.earlier, *found.challengers]
    shares = found.challengers.values()
    return (
        all(isinstance(version, str) and VERSION.fullmatch(version) for version in versions)
        and all(type(share) in {int, float} and 0 <= share <= 1 for share in shares)
        and sum(map(bool, shares)) <= 1
        and found.champion not in found.challengers
        and all(isinstance(done, dict) for done in found.history)
    )
