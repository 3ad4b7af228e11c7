"""The versions of a model, and which of them is the champion.

STATE/models/fraud/
    1/  model.onnx  card.json          a version is never written again
    2/  …
    champion.json                      {"champion": "2", "earlier": ["1"], "history": […]}

A version appears whole, by the renaming of its folder; the champion changes by the renaming of one small file. So a
reader at any moment finds one or the other, never a part.
"""

import fcntl
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from headrace.errors import HeadraceError
from headrace.score.card import BrokenCard, Card, read_card
from headrace.score.network import BrokenModel, read_model

LARGEST_BYTES = 1 << 20
LONGEST_HISTORY = 1000
_VERSION = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)


class NoVersion(HeadraceError):
    """There is no such version of a model, or none to go back to."""


class BrokenChampion(HeadraceError):
    """The file that names a champion is not one."""


@dataclass(frozen=True)
class Champion:
    """Which version is served, those it came after, and what was done when."""

    champion: str | None = None
    earlier: tuple[str, ...] = ()
    history: tuple[dict[str, str], ...] = field(default=())

    def now(self, did: str, version: str, earlier: tuple[str, ...]) -> "Champion":
        done = {"at": datetime.now(UTC).isoformat(timespec="milliseconds"), "did": did, "version": version}
        return Champion(version, earlier[-LONGEST_HISTORY:], (*self.history, done)[-LONGEST_HISTORY:])


class Versions:
    """The versions of one model in a state folder."""

    def __init__(self, state: Path, model: str) -> None:
        self.model = model
        self.folder = state / "models" / model
        self._file = self.folder / "champion.json"

    def names(self) -> list[str]:
        """Every version, oldest first."""
        found = self.folder.iterdir() if self.folder.is_dir() else []
        return sorted((one.name for one in found if _VERSION.fullmatch(one.name) and one.is_dir()), key=int)

    def add(self, content: bytes, card: Card) -> Card:
        """Keep a model under the next free number."""
        self.folder.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=".draft-", dir=self.folder))
        try:
            _write(draft / "model.onnx", content)
            return self._placed(draft, card)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise

    def _placed(self, draft: Path, card: Card) -> Card:
        number = int((self.names() or ["0"])[-1])
        while True:
            number += 1
            numbered = replace(card, version=str(number))
            _write(draft / "card.json", numbered.text().encode())
            try:
                draft.rename(self.folder / str(number))  # refused where that is there: it is never empty
            except OSError:
                if not (self.folder / str(number)).exists():
                    raise
                continue
            return numbered

    def card(self, version: str) -> Card:
        """The card of a version, once it is this model's and this version's."""
        file = self._folder_of(version) / "card.json"
        card = read_card(file)
        if (card.model, card.version) != (self.model, version):
            raise BrokenCard(
                f"{str(file)!r} is the card of {card.model!r} version {card.version!r}. Put it back, or train anew."
            )
        return card

    def content(self, version: str) -> bytes:
        """The ONNX of a version, once it is the one its card was written for."""
        card, file = self.card(version), self._folder_of(version) / "model.onnx"
        content = read_model(file)
        if hashlib.sha256(content).hexdigest() != card.sha256:
            raise BrokenModel(f"{str(file)!r} is not the file its card was written for. Put it back, or train anew.")
        return content

    def _folder_of(self, version: str) -> Path:
        if not _VERSION.fullmatch(version) or not (self.folder / version).is_dir():
            there = ", ".join(self.names()) or f"none yet: run headrace train APP {self.model} --spine FILE"
            raise NoVersion(f"Model {self.model!r} has no version {version!r}. There is {there}.")
        return self.folder / version

    def champion(self) -> Champion:
        """Who is champion now."""
        try:
            with self._file.open("rb") as opened:
                content = opened.read(LARGEST_BYTES + 1)
        except FileNotFoundError:
            return Champion()
        found = _parsed(content)
        if found is None:
            raise BrokenChampion(
                f"{str(self._file)!r} does not say who is champion. Remove it, then run headrace models promote."
            )
        return found

    def promote(self, version: str) -> Champion:
        """Make a version the champion."""
        self.card(version)
        with self._alone():
            now = self.champion()
            if now.champion == version:
                return now
            earlier = now.earlier if now.champion is None else (*now.earlier, now.champion)
            return self._keep(now.now("promote", version, earlier))

    def rollback(self) -> Champion:
        """Make the version before the champion the champion again."""
        with self._alone():
            now = self.champion()
            if not now.earlier:
                raise NoVersion(f"Model {self.model!r} has no champion before {now.champion} to go back to.")
            self.card(now.earlier[-1])
            return self._keep(now.now("rollback", now.earlier[-1], now.earlier[:-1]))

    def _keep(self, champion: Champion) -> Champion:
        draft = self._file.with_suffix(".draft")
        _write(draft, json.dumps(asdict(champion)).encode())
        draft.replace(self._file)
        return champion

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One writer at a time; readers need not wait."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def _parsed(content: bytes) -> Champion | None:
    if len(content) > LARGEST_BYTES:
        return None
    try:
        written: Any = json.loads(content)
        found = Champion(written["champion"], tuple(written["earlier"]), tuple(written["history"]))
    except (ValueError, RecursionError, TypeError, KeyError):
        return None
    versions = [found.champion, *found.earlier]
    named = all(isinstance(version, str) and _VERSION.fullmatch(version) for version in versions)
    return found if named and all(isinstance(done, dict) for done in found.history) else None


def _write(file: Path, content: bytes) -> None:
    with file.open("wb") as opened:
        opened.write(content)
        opened.flush()
        os.fsync(opened.fileno())
