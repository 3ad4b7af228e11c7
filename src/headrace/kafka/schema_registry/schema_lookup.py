"""The schema of a stream that declares none: the newest version of its subject, cached in the app's state folder.

An app keeps the version it was started with until it is started again: its parts and other commands read the cache,
so they all see the same columns, and they work while the registry is down.
"""

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from headrace.declare.streams.encoding import RecordEncoding, RegisteredSchema, use_schema_lookup
from headrace.errors import HeadraceError
from headrace.kafka.schema_registry.formats import to_registered_schema
from headrace.kafka.schema_registry.registry_client import (
    SCHEMA_TYPES,
    RegistryUnavailable,
    SchemaDefinition,
    create_registry_client,
)

LOGGER = logging.getLogger("headrace.log")


class SubjectMissing(HeadraceError):
    """A subject that its registry does not have, or whose registry does not answer."""


@dataclass(frozen=True)
class RegistrySchemaLookup:
    """Looks up the subjects of an app by its state folder.

    With `asks_registry` the cache serves only while the registry is down; with `writes_cache` it is updated.
    """

    state_folder: Path
    asks_registry: bool = False
    writes_cache: bool = False

    def __call__(self, encoded: RecordEncoding) -> RegisteredSchema:
        cached = self._read_cached_schema(encoded)
        if cached is not None and not self.asks_registry:
            return cached
        try:
            return self._fetch_schema(encoded)
        except RegistryUnavailable as error:
            if cached is None:
                raise SubjectMissing(
                    f"{error} Without it the columns of subject {encoded.subject!r} are unknown; "
                    "or write schema= with the columns you want."
                ) from error
            LOGGER.warning("%s Uses the cached version %d of %s.", error, cached.version, encoded.subject)
            return cached

    def _fetch_schema(self, encoded: RecordEncoding) -> RegisteredSchema:
        registry = create_registry_client(encoded.registry)
        latest = registry.get_latest_version(encoded.subject)
        if latest is None:
            raise SubjectMissing(
                f"The registry at {registry.url} has no subject {encoded.subject!r}. "
                "Register its schema, name another with subject=, or write schema=."
            )
        schema = to_registered_schema(encoded, latest.number, latest.schema)
        if self.writes_cache:
            self._write_cached_schema(encoded, latest.number, latest.schema.text)
        return schema

    def _cache_file(self, encoded: RecordEncoding) -> Path:
        return self.state_folder / "schemas" / f"{quote(encoded.subject, safe='')}.{encoded.format}.json"

    def _read_cached_schema(self, encoded: RecordEncoding) -> RegisteredSchema | None:
        try:
            content = json.loads(self._cache_file(encoded).read_text())
        except FileNotFoundError:
            return None
        return to_registered_schema(
            encoded, content["version"], SchemaDefinition(0, SCHEMA_TYPES[encoded.format], content["text"])
        )

    def _write_cached_schema(self, encoded: RecordEncoding, version: int, text: str) -> None:
        file = self._cache_file(encoded)
        file.parent.mkdir(parents=True, exist_ok=True)
        draft = file.with_name(f".{file.name}.draft")
        draft.write_text(json.dumps({"version": version, "text": text}))
        draft.replace(file)


@contextmanager
def use_registry_lookup(state_folder: Path | str = ".headrace") -> Iterator[None]:
    """Within the block, streams that declare no schema get theirs from their registry."""
    with use_schema_lookup(RegistrySchemaLookup(Path(state_folder))):
        yield
