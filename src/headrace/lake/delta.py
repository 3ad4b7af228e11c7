"""One Delta table of the lake: made, widened, read and committed to.

How far a topic has landed is part of the table: each commit carries, for every partition, the last offset in it as an
application transaction. Files and positions become true in one step, so there is no checkpoint that could disagree.
"""

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import TableNotFoundError

from headrace.errors import HeadraceError
from headrace.lake.files import added
from headrace.lake.landing import DAY, HEADERS, Landing

PRIMITIVES = {"tinyint": "byte", "smallint": "short", "int": "integer", "bigint": "long"}
UNFINISHED = "_unfinished"  # where executors write; what begins with an underscore is no part of a table
FORBIDDEN = set(' ,;{}()\n\t="')
# A commit every few seconds: older log files than this go whenever a checkpoint of the log is written.
CONFIGURATION: Mapping[str, str | None] = {
    "delta.logRetentionDuration": "interval 1 days",
    "delta.deletedFileRetentionDuration": "interval 1 days",
}
_HEADERS_TYPE = {
    "type": "array",
    "containsNull": True,
    "elementType": {
        "type": "struct",
        "fields": [
            {"name": "key", "type": "string", "nullable": True, "metadata": {}},
            {"name": "value", "type": "binary", "nullable": True, "metadata": {}},
        ],
    },
}


class UnfitForTheLake(HeadraceError):
    """A declaration whose events cannot be added to the table that is there."""


@dataclass(frozen=True)
class Position:
    """How far a partition has landed: the last offset read of the topic, and the last hr_offset in the table."""

    read: int = -1
    landed: int = -1


class LakeTable:
    """The table of a landing, as it was when last looked at."""

    def __init__(self, lake: Path, landing: Landing) -> None:
        self.landing = landing
        self.folder = (lake / landing.table).resolve()
        self._table: DeltaTable | None = None

    def prepare(self) -> None:
        """Make the table, or add the columns it lacks; refuse what older files contradict. Removes a crash's scraps."""
        self.require_fitting()
        schema = schema_of(self.landing)
        table = DeltaTable.create(
            self.folder, schema, mode="ignore", partition_by=[DAY], configuration=dict(CONFIGURATION)
        )
        known = {field.name for field in table.schema().fields}
        new = [field for field in schema.fields if field.name not in known]
        if new:
            table.alter.add_columns(new)
            table.update_incremental()
        shutil.rmtree(self.folder / UNFINISHED, ignore_errors=True)
        self._table = table

    def require_fitting(self) -> None:
        """Refuse a landing whose columns a table cannot have, or not beside those it has."""
        _require_names(self.landing)
        try:
            found = DeltaTable(self.folder).schema()
        except TableNotFoundError:
            return
        _require_compatible(self.landing, found, self.folder)

    def positions(self, partitions: Sequence[int]) -> dict[int, Position]:
        """How far each partition has landed now."""
        self.table.update_incremental()
        topic, counts = self.landing.topic, self.landing.counts
        return {number: Position(self._last(topic, number), self._last(counts, number)) for number in partitions}

    def _last(self, topic: str, partition: int) -> int:
        last = self.table.transaction_version(_position_name(topic, partition))
        return -1 if last is None else last

    def commit(self, files: Sequence[Path], positions: Mapping[int, Position]) -> None:
        """Add files and move the positions, both or neither; fails where somebody else has moved them since."""
        landing = self.landing
        moved = {_position_name(landing.topic, number): position.read for number, position in positions.items()}
        if landing.may_replay:
            moved |= {_position_name(landing.counts, number): place.landed for number, place in positions.items()}
        self.table.create_write_transaction(
            [added(file, self.folder) for file in files],
            "append",
            self.table.schema(),
            [DAY],
            commit_properties=CommitProperties(app_transactions=[Transaction(*place) for place in moved.items()]),
        )
        self.table.update_incremental()

    @property
    def table(self) -> DeltaTable:
        if self._table is None:
            self._table = DeltaTable(self.folder)
        return self._table


def _position_name(topic: str, partition: int) -> str:
    return f"headrace:{topic}/{partition}"


def schema_of(landing: Landing) -> Schema:
    """The columns of a landing as Delta writes them down."""
    fields = [
        {"name": column.name, "type": _delta_type(column.type), "nullable": True, "metadata": {}}
        for column in landing.columns
    ]
    return Schema.from_json(json.dumps({"type": "struct", "fields": fields}))


def _delta_type(spark_type: str) -> object:
    return _HEADERS_TYPE if spark_type == HEADERS else PRIMITIVES.get(spark_type, spark_type)


def _require_names(landing: Landing) -> None:
    names = [column.name.lower() for column in landing.columns]
    for name in names:
        if names.count(name) > 1:
            raise UnfitForTheLake(
                f"{landing.topic}: the table {landing.table} would have two columns named {name!r}: one is the lake's "
                "own, or they differ in case alone. Rename the stream's column, or start with --lake off."
            )
        if FORBIDDEN & set(name):
            raise UnfitForTheLake(
                f"{landing.topic}: column {name!r} has a character that Delta tables do not allow in names. "
                "Rename it to letters, digits and underscores, or start with --lake off."
            )


def _require_compatible(landing: Landing, found: Schema, folder: Path) -> None:
    wanted = {field.name: field.type for field in schema_of(landing).fields}
    for field in found.fields:
        if wanted.get(field.name) == field.type:
            continue
        change = "is gone" if field.name not in wanted else f"was {_words(field.type)}, is {_words(wanted[field.name])}"
        raise UnfitForTheLake(
            f"{landing.topic}: column {field.name!r} {change}, but the table at {str(folder)!r} has it as it was. "
            "Undo the change (a new column may take another name), move that folder away, or give another --lake DIR."
        )


def _words(delta_type: object) -> str:
    return str(json.loads(delta_type.to_json())) if hasattr(delta_type, "to_json") else str(delta_type)
