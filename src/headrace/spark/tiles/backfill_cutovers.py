"""Backfills: the offset at which a view's history ends and its stream begins, saved once.

    raw log   0 ──────────────── cut ──────────────────▶
              └ folded in batch ─┘└ folded by the stream ─▶
                base tiles          live tiles

The file of a view's backfill is written before its first tile, and its cutover never changes: a restart after a crash
continues with the same one, and writes the same tiles again.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

from headrace.declare.features.view import View
from headrace.errors import HeadraceError
from headrace.tiles.layout import base_layouts


class CutoverGapError(HeadraceError):
    """Records between history and the stream would be missing from both."""


@dataclass(frozen=True)
class Cutover:
    """The first offset of each raw partition that is not history, and the same position in the clean log."""

    raw: tuple[int, ...]
    clean: tuple[int, ...]

    @classmethod
    def from_json(cls, data: dict[str, list[int]]) -> Self:
        return cls(tuple(data["raw"]), tuple(data["clean"]))

    def describe(self, topic: str) -> str:
        """The cutover as topic-partition@offset of each partition."""
        return ", ".join(f"{topic}-{number}@{offset}" for number, offset in enumerate(self.raw))

    def require_within_log(self, view: str, topic: str, start_offsets: Sequence[int]) -> None:
        """Reject a clean log that starts after the cutover; `start_offsets` are its earliest offsets."""
        for number, (start_offset, cutover_offset) in enumerate(zip(start_offsets, self.clean, strict=True)):
            if start_offset > cutover_offset:
                raise CutoverGapError(
                    f"The history of {view} ends before {topic}-{number}@{cutover_offset}, but that log begins at "
                    f"{start_offset}: "
                    f"{start_offset - cutover_offset} records are missing from both. Give {view} another name and "
                    f"backfill that, "
                    "once the lake has what the log has; a longer retention.ms keeps the log until then."
                )


@dataclass(frozen=True)
class Backfill:
    """One view's backfill: each stream's cutover, the shape of its tiles, and its changelog's ends once complete."""

    view: str
    cuts: Mapping[str, Cutover]
    versions: tuple[str, ...]
    ends: tuple[int, ...] | None = None

    @property
    def description(self) -> str:
        """The cutovers as text."""
        return ", ".join(cutover.describe(stream) for stream, cutover in self.cuts.items())

    @property
    def is_done(self) -> bool:
        return self.ends is not None

    def matches_view(self, view: View) -> bool:
        """Whether a view's current declaration reads the tiles that were folded."""
        return self.versions == base_tile_versions(view)

    def with_ends(self, ends: Sequence[int]) -> "Backfill":
        """The completed backfill."""
        return replace(self, ends=tuple(ends))


def base_tile_versions(view: View) -> tuple[str, ...]:
    """The versions of the tiles that hold a view's history."""
    return tuple(layout.version for layout in base_layouts(view))


def backfill_file(state_folder: Path, view: str) -> Path:
    """The file of a view's backfill."""
    return state_folder / "backfills" / f"{view}.json"


def load_backfill(state_folder: Path, view: View) -> Backfill | None:
    """The backfill of a view, None where it has none."""
    try:
        data: dict[str, Any] = json.loads(backfill_file(state_folder, view.name).read_text())
    except FileNotFoundError:
        return None
    cutovers, ends = _read_cutovers(data, view), data["ends"]
    return Backfill(data["view"], cutovers, tuple(data["versions"]), None if ends is None else tuple(ends))


def _read_cutovers(data: dict[str, Any], view: View) -> dict[str, Cutover]:
    """The cutover of each stream; a file from before views had several streams does not name it."""
    cutovers = data["cuts"] if "cuts" in data else {view.streams[0].name: data["cut"]}
    return {stream: Cutover.from_json(cutover_data) for stream, cutover_data in cutovers.items()}


def save_backfill(backfill: Backfill, state_folder: Path) -> None:
    """Save a backfill atomically."""
    file = backfill_file(state_folder, backfill.view)
    file.parent.mkdir(parents=True, exist_ok=True)
    temp_file = file.with_suffix(".draft")
    temp_file.write_text(json.dumps(asdict(backfill), indent=2))
    temp_file.replace(file)


def delete_backfill(backfill: Backfill, state_folder: Path) -> None:
    """Delete the file of a backfill that must not start."""
    backfill_file(state_folder, backfill.view).unlink(missing_ok=True)
