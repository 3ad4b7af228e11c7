"""The schemas a gate has met, by id, kept beside its checkpoint: a start while the registry is away works with them."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from headrace.declare.streams.stream import Stream
from headrace.kafka.schema_registry.registry_client import RegistryUnavailable, SchemaDefinition, create_registry_client

SCHEMAS_FILE = "gate.schemas.json"


@dataclass(frozen=True)
class KnownSchemas:
    """Schemas by id, None where the registry knew none, and the versions of the subject that are among them.

    Other ids are asked for, unless these `are_all`, or more than `MANY` were unknown: then they are somebody's noise.
    """

    schemas: Mapping[int, SchemaDefinition | None] = field(default_factory=dict)
    versions: frozenset[int] = frozenset()
    is_complete: bool = False

    MAX_MISSING = 100

    def __contains__(self, schema_id: int) -> bool:
        return schema_id in self.schemas

    @property
    def registered(self) -> tuple[SchemaDefinition, ...]:
        """Those there are, by id."""
        return tuple(schema for _, schema in sorted(self.schemas.items()) if schema is not None)

    @property
    def missing_ids(self) -> tuple[int, ...]:
        """The ids that nothing was registered under."""
        return tuple(sorted(schema_id for schema_id, schema in self.schemas.items() if schema is None))

    @property
    def is_sufficient(self) -> bool:
        """Whether an id that is not among them is a dead letter's."""
        return self.is_complete or len(self.missing_ids) > self.MAX_MISSING

    def merge(self, more: Mapping[int, SchemaDefinition | None], versions: Iterable[int] = ()) -> "KnownSchemas":
        """With more of them; what is known stays, for ids are never given twice. Without news `schemas` is the same."""
        registered = {schema_id: schema for schema_id, schema in self.schemas.items() if schema is not None}
        schemas = {**self.schemas, **more, **registered}
        return KnownSchemas(
            self.schemas if schemas == self.schemas else schemas, self.versions.union(versions), self.is_complete
        )


def schemas_file(state_folder: Path, stream: Stream) -> Path:
    """Where the schemas of a stream are kept."""
    return state_folder.resolve() / "checkpoints" / stream.name / SCHEMAS_FILE


def read_known_schemas(file: Path) -> KnownSchemas:
    """What was kept; nothing where no gate has run yet."""
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
    """As it is kept."""
    schemas = {
        str(number): None if schema is None else asdict(schema) for number, schema in known_schemas.schemas.items()
    }
    return json.dumps({"schemas": schemas, "versions": sorted(known_schemas.versions)})


def load_known_schemas(stream: Stream, state_folder: Path) -> KnownSchemas:
    """What there is to be known of a stream now, by what was kept and by its registry: for who reads raw records."""
    stored = read_known_schemas(schemas_file(state_folder, stream))
    if stream.encoding is None:
        return stored
    try:
        versions = create_registry_client(stream.encoding.registry).get_versions(stream.encoding.subject)
    except RegistryUnavailable:
        versions = ()
    return replace(stored.merge({version.schema.id: version.schema for version in versions}), is_complete=True)
