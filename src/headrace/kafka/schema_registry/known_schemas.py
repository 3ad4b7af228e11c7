"""The schemas a gate has read, by id, cached next to its checkpoint for a start without the registry."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from headrace.declare.streams.stream import Stream
from headrace.kafka.schema_registry.registry_client import RegistryUnavailable, SchemaDefinition, create_registry_client

SCHEMAS_FILE = "gate.schemas.json"


@dataclass(frozen=True)
class KnownSchemas:
    """Schemas by id, None where the registry had none, and the versions of the subject among them.

    Other ids are requested, unless `is_complete` is set or more than MAX_MISSING ids were unknown: those are noise.
    """

    schemas: Mapping[int, SchemaDefinition | None] = field(default_factory=dict)
    versions: frozenset[int] = frozenset()
    is_complete: bool = False

    MAX_MISSING = 100

    def __contains__(self, schema_id: int) -> bool:
        return schema_id in self.schemas

    @property
    def registered(self) -> tuple[SchemaDefinition, ...]:
        """The schemas that exist, by id."""
        return tuple(schema for _, schema in sorted(self.schemas.items()) if schema is not None)

    @property
    def missing_ids(self) -> tuple[int, ...]:
        """The ids without a schema."""
        return tuple(sorted(schema_id for schema_id, schema in self.schemas.items() if schema is None))

    @property
    def is_sufficient(self) -> bool:
        """Whether an unknown id makes a record a dead letter without another request."""
        return self.is_complete or len(self.missing_ids) > self.MAX_MISSING

    def merge(self, more: Mapping[int, SchemaDefinition | None], versions: Iterable[int] = ()) -> "KnownSchemas":
        """Add schemas; known ones stay, since ids are never reused. Without a new one `schemas` is the same object."""
        registered = {schema_id: schema for schema_id, schema in self.schemas.items() if schema is not None}
        schemas = {**self.schemas, **more, **registered}
        return KnownSchemas(
            self.schemas if schemas == self.schemas else schemas, self.versions.union(versions), self.is_complete
        )


def schemas_file(state_folder: Path, stream: Stream) -> Path:
    """The cache file of a stream's schemas."""
    return state_folder.resolve() / "checkpoints" / stream.name / SCHEMAS_FILE


def read_known_schemas(file: Path) -> KnownSchemas:
    """The cached schemas; none where no gate has run yet."""
    try:
        content = json.loads(file.read_text())
    except FileNotFoundError:
        return KnownSchemas()
    schemas = {
        int(number): None if schema is None else SchemaDefinition(**schema)
        for number, schema in content["schemas"].items()
    }
    return KnownSchemas(schemas, frozenset(content["versions"]))


def to_json_text(known_schemas: KnownSchemas) -> str:
    """The content of the cache file."""
    schemas = {
        str(number): None if schema is None else asdict(schema) for number, schema in known_schemas.schemas.items()
    }
    return json.dumps({"schemas": schemas, "versions": sorted(known_schemas.versions)})


def load_known_schemas(stream: Stream, state_folder: Path) -> KnownSchemas:
    """All known schemas of a stream, from its cache and its registry: for readers of raw records."""
    stored = read_known_schemas(schemas_file(state_folder, stream))
    if stream.encoding is None:
        return stored
    try:
        versions = create_registry_client(stream.encoding.registry).get_versions(stream.encoding.subject)
    except RegistryUnavailable:
        versions = ()
    return replace(stored.merge({version.schema.id: version.schema for version in versions}), is_complete=True)
