"""The schema of a stream that leaves it out: the newest version of its subject, kept where the app's state is.

What an app was started with stays until it is started again: its parts and other commands read what was kept, so none
of them sees other columns than the rest, and they work while the registry is away.
"""

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from headrace.declare.encoded import Encoded, Subject, schemas_known_by
from headrace.errors import HeadraceError
from headrace.log.schemas.formats import subject_from
from headrace.log.schemas.registry import KINDS, Registered, RegistryAway, registry_at

LOGGER = logging.getLogger("headrace.log")


class NoSubject(HeadraceError):
    """A subject that its registry does not have, or that nobody can be asked for."""


@dataclass(frozen=True)
class Subjects:
    """Knows the subjects of an app whose state is in a folder.

    One that `asks` goes by the registry, and by what was kept only while that is away; one that `keeps` writes it down.
    """

    state: Path
    asks: bool = False
    keeps: bool = False

    def __call__(self, encoded: Encoded) -> Subject:
        kept = self._kept(encoded)
        if kept is not None and not self.asks:
            return kept
        try:
            return self._asked(encoded)
        except RegistryAway as away:
            if kept is None:
                raise NoSubject(
                    f"{away} Without it nobody knows the columns of subject {encoded.subject!r}; "
                    "or write schema= with the columns you want."
                ) from away
            LOGGER.warning("%s Version %d of %s, which was kept, is used.", away, kept.version, encoded.subject)
            return kept

    def _asked(self, encoded: Encoded) -> Subject:
        registry = registry_at(encoded.registry)
        latest = registry.latest(encoded.subject)
        if latest is None:
            raise NoSubject(
                f"The registry at {registry.url} has no subject {encoded.subject!r}. "
                "Register its schema, name another with subject=, or write schema=."
            )
        found = subject_from(encoded, latest.number, latest.schema)
        if self.keeps:
            self._keep(encoded, latest.number, latest.schema.text)
        return found

    def _file(self, encoded: Encoded) -> Path:
        return self.state / "schemas" / f"{quote(encoded.subject, safe='')}.{encoded.format}.json"

    def _kept(self, encoded: Encoded) -> Subject | None:
        try:
            kept = json.loads(self._file(encoded).read_text())
        except FileNotFoundError:
            return None
        return subject_from(encoded, kept["version"], Registered(0, KINDS[encoded.format], kept["text"]))

    def _keep(self, encoded: Encoded, version: int, text: str) -> None:
        file = self._file(encoded)
        file.parent.mkdir(parents=True, exist_ok=True)
        draft = file.with_name(f".{file.name}.draft")
        draft.write_text(json.dumps({"version": version, "text": text}))
        draft.replace(file)


@contextmanager
def asked_for(state: Path | str = ".headrace") -> Iterator[None]:
    """Until its end, streams that leave their schema out are told it by their registry."""
    with schemas_known_by(Subjects(Path(state))):
        yield
