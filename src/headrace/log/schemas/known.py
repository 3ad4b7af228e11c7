"""The schemas a gate has met, by id, kept beside its checkpoint: a start while the registry is away works with them."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from headrace.declare.stream import Stream
from headrace.log.schemas.registry import Registered, RegistryAway, registry_at

FILE = "gate.schemas.json"


@dataclass(frozen=True)
class Known:
    """Schemas by id, None where the registry knew none, and the versions of the subject that are among them.

    Other ids are asked for, unless these `are_all`, or more than `MANY` were unknown: then they are somebody's noise.
    """

    schemas: Mapping[int, Registered | None] = field(default_factory=dict)
    versions: frozenset[int] = frozenset()
    are_all: bool = False

    MANY = 100

    def __contains__(self, schema_id: int) -> bool:
        return schema_id in self.schemas

    @property
    def found(self) -> tuple[Registered, ...]:
        """Those there are, by id."""
        return tuple(schema for _, schema in sorted(self.schemas.items()) if schema is not None)

    @property
    def missing(self) -> tuple[int, ...]:
        """The ids that nothing was registered under."""
        return tuple(sorted(schema_id for schema_id, schema in self.schemas.items() if schema is None))

    @property
    def are_enough(self) -> bool:
        """Whether an id that is not among them is a dead letter's."""
        return self.are_all or len(self.missing) > self.MANY

    def and_(self, more: Mapping[int, Registered | None], versions: Iterable[int] = ()) -> "Known":
        """With more of them; what is known stays, for ids are never given twice. Without news `schemas` is the same."""
        found = {schema_id: schema for schema_id, schema in self.schemas.items() if schema is not None}
        schemas = {**self.schemas, **more, **found}
        return Known(self.schemas if schemas == self.schemas else schemas, self.versions.union(versions), self.are_all)


def schemas_file(state: Path, stream: Stream) -> Path:
    """Where the schemas of a stream are kept."""
    return state.resolve() / "checkpoints" / stream.name / FILE


def read_known(file: Path) -> Known:
    """What was kept; nothing where no gate has run yet."""
    try:
        kept = json.loads(file.read_text())
    except FileNotFoundError:
        return Known()
    schemas = {int(number): None if one is None else Registered(**one) for number, one in kept["schemas"].items()}
    return Known(schemas, frozenset(kept["versions"]))


def as_text(known: Known) -> str:
    """As it is kept."""
    schemas = {str(number): None if one is None else asdict(one) for number, one in known.schemas.items()}
    return json.dumps({"schemas": schemas, "versions": sorted(known.versions)})


def known_of(stream: Stream, state: Path) -> Known:
    """What there is to be known of a stream now, by what was kept and by its registry: for who reads raw records."""
    kept = read_known(schemas_file(state, stream))
    if stream.encoded is None:
        return kept
    try:
        versions = registry_at(stream.encoded.registry).versions(stream.encoded.subject)
    except RegistryAway:
        versions = ()
    return replace(kept.and_({one.schema.id: one.schema for one in versions}), are_all=True)
