"""The versions of a model, and which of them is the champion.

STATE/models/fraud/
    1/  model.onnx  card.json          a version is never written again
    2/  …
    champion.json                      who is champion, who challenges it, and what was done when

A version appears whole, by the renaming of its folder; the champion changes by the renaming of one small file. So a
reader at any moment finds one or the other, never a part.
"""

import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path

from headrace.errors import HeadraceError
from headrace.private_folder import make_private_folder
from headrace.score.card import BrokenCard, Card, read_card
from headrace.score.network import BrokenModel, read_model
from headrace.score.roles import LARGEST_BYTES, VERSION, BrokenChampion, Champion, parsed


class NoVersion(HeadraceError):
    """There is no such version of a model, none to go back to, or none that could challenge."""


class Versions:
    """The versions of one model in a state folder."""

    def __init__(self, state: Path, model: str) -> None:
        self.model, self.state = model, state
        self.folder = state / "models" / model
        self.file = self.folder / "champion.json"

    def names(self) -> list[str]:
        """Every version, oldest first."""
        found = self.folder.iterdir() if self.folder.is_dir() else []
        return sorted((one.name for one in found if VERSION.fullmatch(one.name) and one.is_dir()), key=int)

    def add(self, content: bytes, card: Card) -> Card:
        """Keep a model under the next free number."""
        make_private_folder(self.state)
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
        if not VERSION.fullmatch(version) or not (self.folder / version).is_dir():
            there = ", ".join(self.names()) or f"none yet: run headrace train APP {self.model} --spine FILE"
            raise NoVersion(f"Model {self.model!r} has no version {version!r}. There is {there}.")
        return self.folder / version

    def champion(self) -> Champion:
        """Who is champion now."""
        try:
            with self.file.open("rb") as opened:
                content = opened.read(LARGEST_BYTES + 1)
        except FileNotFoundError:
            return Champion()
        found = parsed(content)
        if found is None:
            raise BrokenChampion(
                f"{str(self.file)!r} does not say who is champion. Remove it, then run headrace models promote."
            )
        return found

    def promote(self, version: str) -> Champion:
        """Make a version the champion; one that challenged it challenges no more."""
        self.card(version)
        with self._alone():
            now = self.champion()
            return now if now.champion == version else self._keep(now.promoted(version))

    def rollback(self) -> Champion:
        """Make the version before the champion the champion again."""
        with self._alone():
            now = self.champion()
            if not now.earlier:
                raise NoVersion(f"Model {self.model!r} has no champion before {now.champion} to go back to.")
            self.card(now.earlier[-1])
            return self._keep(now.rolled_back())

    def challenge(self, version: str, share: float = 0.0) -> Champion:
        """Score a version beside the champion, and let it answer for a share of the keys."""
        self.card(version)
        with self._alone():
            now = self.champion()
            self._require_challenger(now, version, share)
            return self._keep(now.challenged(version, share))

    def withdraw(self, version: str) -> Champion:
        """Score a challenger no more."""
        with self._alone():
            now = self.champion()
            if version not in now.challengers:
                there = ", ".join(now.challengers) or "no version does"
                raise NoVersion(
                    f"Version {version!r} of model {self.model!r} does not challenge its champion: {there}."
                )
            return self._keep(now.withdrawn(version))

    def _require_challenger(self, now: Champion, version: str, share: float) -> None:
        if now.champion is None:
            raise NoVersion(f"Model {self.model!r} has no champion to challenge. Run headrace models promote first.")
        if now.champion == version:
            raise NoVersion(f"Version {version} of model {self.model!r} is the champion. Name one to challenge it.")
        rival = now.split
        if share and rival not in {None, version}:
            raise NoVersion(
                f"Version {rival} of model {self.model!r} has a share of the keys already. "
                f"End that first: headrace models shadow APP {self.model} {rival}."
            )

    def _keep(self, champion: Champion) -> Champion:
        draft = self.file.with_suffix(".draft")
        _write(draft, json.dumps(asdict(champion)).encode())
        draft.replace(self.file)
        return champion

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One writer at a time; readers need not wait."""
        make_private_folder(self.state)
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def _write(file: Path, content: bytes) -> None:
    with file.open("wb") as opened:
        opened.write(content)
        opened.flush()
        os.fsync(opened.fileno())
