"""The version store of a model, and its champion.

STATE/models/fraud/
    1/  model.onnx  card.json          a version is immutable
    2/  …
    champion.json                      champion, challengers, and history

A version is published by renaming its folder; the champion changes by renaming one small file. So a reader always
finds a complete state.
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
from headrace.models.inference.onnx_model import ModelLoadFailed, read_model
from headrace.models.versions.model_card import InvalidModelCardError, ModelCard, read_card
from headrace.models.versions.roles import (
    MAX_ROLES_BYTES,
    VERSION_PATTERN,
    InvalidRolesFileError,
    VersionRoles,
    parse_roles,
)
from headrace.storage.private_folder import make_private_folder


class ModelVersionError(HeadraceError):
    """A version does not exist, or cannot be rolled back to or used as a challenger."""


class VersionStore:
    """The versions of one model in a state folder."""

    def __init__(self, state: Path, model: str) -> None:
        self.model, self.state = model, state
        self.folder = state / "models" / model
        self.roles_file = self.folder / "champion.json"

    def list_versions(self) -> list[str]:
        """Every version, oldest first."""
        entries = self.folder.iterdir() if self.folder.is_dir() else []
        return sorted(
            (entry.name for entry in entries if VERSION_PATTERN.fullmatch(entry.name) and entry.is_dir()), key=int
        )

    def add(self, content: bytes, card: ModelCard) -> ModelCard:
        """Store a model under the next free number."""
        make_private_folder(self.state)
        self.folder.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=".draft-", dir=self.folder))
        try:
            _write_durably(draft / "model.onnx", content)
            return self._publish_draft(draft, card)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise

    def _publish_draft(self, draft: Path, card: ModelCard) -> ModelCard:
        number = int((self.list_versions() or ["0"])[-1])
        while True:
            number += 1
            numbered_card = replace(card, version=str(number))
            _write_durably(draft / "card.json", numbered_card.to_json().encode())
            try:
                draft.rename(self.folder / str(number))  # fails where that exists, since it is never empty
            except OSError:
                if not (self.folder / str(number)).exists():
                    raise
                continue
            return numbered_card

    def load_card(self, version: str) -> ModelCard:
        """The card of a version, after checking that it is of this model and version."""
        file = self._require_version_folder(version) / "card.json"
        card = read_card(file)
        if (card.model, card.version) != (self.model, version):
            raise InvalidModelCardError(
                f"{str(file)!r} is the card of {card.model!r} version {card.version!r}. Restore it, or train again."
            )
        return card

    def load_content(self, version: str) -> bytes:
        """The ONNX of a version, after checking its hash in the card."""
        card, file = self.load_card(version), self._require_version_folder(version) / "model.onnx"
        content = read_model(file)
        if hashlib.sha256(content).hexdigest() != card.sha256:
            raise ModelLoadFailed(
                f"{str(file)!r} is not the file its card was written for. Restore it, or train again."
            )
        return content

    def _require_version_folder(self, version: str) -> Path:
        if not VERSION_PATTERN.fullmatch(version) or not (self.folder / version).is_dir():
            existing = ", ".join(self.list_versions()) or f"none yet: run headrace train APP {self.model} --spine FILE"
            raise ModelVersionError(f"Model {self.model!r} has no version {version!r}. There is {existing}.")
        return self.folder / version

    def load_roles(self) -> VersionRoles:
        """The current roles."""
        try:
            with self.roles_file.open("rb") as stream:
                content = stream.read(MAX_ROLES_BYTES + 1)
        except FileNotFoundError:
            return VersionRoles()
        roles = parse_roles(content)
        if roles is None:
            raise InvalidRolesFileError(
                f"{str(self.roles_file)!r} does not say who is champion. Remove it, then run headrace models promote."
            )
        return roles

    def promote(self, version: str) -> VersionRoles:
        """Make a version the champion; it is no longer a challenger."""
        self.load_card(version)
        with self._exclusive_lock():
            roles = self.load_roles()
            return roles if roles.champion == version else self._write_roles(roles.with_promotion(version))

    def rollback(self) -> VersionRoles:
        """Make the version before the champion the champion again."""
        with self._exclusive_lock():
            roles = self.load_roles()
            if not roles.earlier:
                raise ModelVersionError(f"Model {self.model!r} has no champion before {roles.champion} to go back to.")
            self.load_card(roles.earlier[-1])
            return self._write_roles(roles.with_rollback())

    def add_challenger(self, version: str, share: float = 0.0) -> VersionRoles:
        """Score a version as a challenger, and let it serve a share of the keys."""
        self.load_card(version)
        with self._exclusive_lock():
            roles = self.load_roles()
            self._require_challenger(roles, version, share)
            return self._write_roles(roles.with_challenger(version, share))

    def remove_challenger(self, version: str) -> VersionRoles:
        """Stop scoring a challenger."""
        with self._exclusive_lock():
            roles = self.load_roles()
            if version not in roles.challengers:
                challengers = ", ".join(roles.challengers) or "no version does"
                raise ModelVersionError(
                    f"Version {version!r} of model {self.model!r} does not challenge its champion: {challengers}."
                )
            return self._write_roles(roles.without_challenger(version))

    def _require_challenger(self, roles: VersionRoles, version: str, share: float) -> None:
        if roles.champion is None:
            raise ModelVersionError(
                f"Model {self.model!r} has no champion to challenge. Run headrace models promote first."
            )
        if roles.champion == version:
            raise ModelVersionError(
                f"Version {version} of model {self.model!r} is the champion. Name one to challenge it."
            )
        split_challenger = roles.split_challenger
        if share and split_challenger not in {None, version}:
            raise ModelVersionError(
                f"Version {split_challenger} of model {self.model!r} has a share of the keys already. "
                f"End that first: headrace models shadow APP {self.model} {split_challenger}."
            )

    def _write_roles(self, roles: VersionRoles) -> VersionRoles:
        draft = self.roles_file.with_suffix(".draft")
        _write_durably(draft, json.dumps(asdict(roles)).encode())
        draft.replace(self.roles_file)
        return roles

    @contextmanager
    def _exclusive_lock(self) -> Iterator[None]:
        """One writer at a time; readers need no lock."""
        make_private_folder(self.state)
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def _write_durably(file: Path, content: bytes) -> None:
    with file.open("wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
