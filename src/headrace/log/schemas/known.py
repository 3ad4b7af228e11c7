"""The schemas a gate has met, by id, kept beside its checkpoint: a start while the registry is away works with them."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from headrace.declare.stream import Stream
from headrace.log.schemas.registry import Registered


@dataclass(frozen=True)
class Known:
    """Schemas by id, None where the registry knew none, and the versions of the subject that are among them.

    Where more ids were unknown than `MANY`, nobody asks for further ones: they are somebody's noise.
    """

    schemas: Mapping[int, Registered | None] = field(default_factory=dict)
    versions: frozenset[int] = frozenset()

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
    def is_noisy(self) -> bool:
        return len(self.missing) > self.MANY

    def and_(self, more: Mapping[int, Registered | None], versions: Iterable[int] = ()) -> "Known":
        """With more of them; what is known stays, for ids are never given twice."""
        found = {schema_id: schema for schema_id, schema in self.schemas.items() if schema is not None}
        return Known({**self.schemas, **more, **found}, self.versions.union(versions))


def schemas_file(state: Path, stream: Stream) -> Path:
    """Where the schemas of a stream are kept."""
    return state.resolve() / "checkpoints" / stream.name / "gate.schemas.json"


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
