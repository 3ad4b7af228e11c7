"""Backfills: where a view's history ends and its stream begins, written down once.

    raw log   0 ──────────────── cut ──────────────────▶
              └ folded in batch ─┘└ folded by the stream ─▶
                base tiles          live tiles

The file of a view's backfill is written before its first tile, and its cut never changes: whoever is killed goes on
with the same one, and what was folded twice is the same tile twice.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

from headrace.declare.views import View
from headrace.errors import HeadraceError
from headrace.tiles.layout import bases_of


class LogBeginsAfterTheCut(HeadraceError):
    """Records between history and the stream are in neither."""


@dataclass(frozen=True)
class Cut:
    """The first offset of each raw partition that is not history, and the same place in the clean log."""

    raw: tuple[int, ...]
    clean: tuple[int, ...]

    @classmethod
    def read(cls, written: dict[str, list[int]]) -> Self:
        return cls(tuple(written["raw"]), tuple(written["clean"]))

    def described(self, topic: str) -> str:
        """The cut for a person: topic-partition@offset of each partition."""
        return ", ".join(f"{topic}-{number}@{offset}" for number, offset in enumerate(self.raw))

    def require_in(self, view: str, topic: str, begins: Sequence[int]) -> None:
        """Refuse a clean log that begins after the cut; `begins` are its earliest offsets."""
        for number, (begin, cut) in enumerate(zip(begins, self.clean, strict=True)):
            if begin > cut:
                raise LogBeginsAfterTheCut(
                    f"The history of {view} ends before {topic}-{number}@{cut}, but that log begins at {begin}: "
                    f"{begin - cut} records are in neither. Give {view} another name and backfill that, "
                    "once the lake has what the log has; a longer retention.ms keeps the log until then."
                )


@dataclass(frozen=True)
class Backfill:
    """One view's backfill: each stream's cut, the tiles it makes, and the ends of its changelog once all are in it."""

    view: str
    cuts: Mapping[str, Cut]
    versions: tuple[str, ...]
    ends: tuple[int, ...] | None = None

    @property
    def described(self) -> str:
        """The cuts for a person."""
        return ", ".join(cut.described(stream) for stream, cut in self.cuts.items())

    @property
    def is_done(self) -> bool:
        return self.ends is not None

    def fits(self, view: View) -> bool:
        """Whether a view as it is declared now reads the tiles that were folded."""
        return self.versions == versions_of(view)

    def done(self, ends: Sequence[int]) -> "Backfill":
        """The same, finished."""
        return replace(self, ends=tuple(ends))


def versions_of(view: View) -> tuple[str, ...]:
    """The versions of the tiles that hold a view's history."""
    return tuple(layout.version for layout in bases_of(view))


def file_of(state: Path, view: str) -> Path:
    """Where the backfill of a view is written down."""
    return state / "backfills" / f"{view}.json"


def load(state: Path, view: View) -> Backfill | None:
    """The backfill of a view, None where it has none."""
    try:
        written: dict[str, Any] = json.loads(file_of(state, view.name).read_text())
    except FileNotFoundError:
        return None
    cuts, ends = _cuts(written, view), written["ends"]
    return Backfill(written["view"], cuts, tuple(written["versions"]), None if ends is None else tuple(ends))


def _cuts(written: dict[str, Any], view: View) -> dict[str, Cut]:
    """The cut of each stream; a file from before views had several does not name the one."""
    cuts = written["cuts"] if "cuts" in written else {view.streams[0].name: written["cut"]}
    return {stream: Cut.read(cut) for stream, cut in cuts.items()}


def keep(backfill: Backfill, state: Path) -> None:
    """Write a backfill down, whole or not at all."""
    file = file_of(state, backfill.view)
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_suffix(".draft")
    draft.write_text(json.dumps(asdict(backfill), indent=2))
    draft.replace(file)


def forget(backfill: Backfill, state: Path) -> None:
    """Remove what was written down of a backfill that must not begin."""
    file_of(state, backfill.view).unlink(missing_ok=True)
