"""Versions of an operation: each has a state of its own; a changed declaration continues one or needs a new one.

first up: spend → version 1 starts with the earliest clean record
a changed operation → refused, with its line; `--rebuild spend` starts version 2 there, or at the time of `--since`
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.declare.app import App
from headrace.declare.features.retractable_views import RetractableView
from headrace.declare.operations.derived_stream import DerivedStream, StreamOperation
from headrace.kafka.record import Partition
from headrace.kafka.record_deletion import delete_all_records
from headrace.kafka.topics import fate_topics
from headrace.spark.checkpoints.checkpoint_files import write_atomically
from headrace.spark.stateful.operation_changes import describe_changes, operation_kind
from headrace.spark.stateful.operation_identity import OperationIdentity, keep_column_order, operation_identity
from headrace.spark.tiles.query_versions import has_run

FOLDER = "operations"


@dataclass(frozen=True)
class OperationVersion:
    """A version of an operation: its number, the identity it was started with, and since when it reads.

    `changes` are the differences to the saved one, `refusals` those that its state cannot follow.
    """

    operation: StreamOperation
    number: int
    identity: OperationIdentity
    since_us: int | None = None
    changes: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()

    @property
    def refusal_message(self) -> str:
        """Why it cannot run, and what to do."""
        return f"{' '.join(self.refusals)} {self.advice}"

    @property
    def rebuild_names(self) -> tuple[str, ...]:
        """The names for --rebuild."""
        return (self.operation.name,)

    @property
    def advice(self) -> str:
        """What to do about the refusals."""
        return (
            f"Start with --rebuild {self.operation.name} to compute it again from {_input_topics(self.operation)}, "
            "undo the change, give it another name, or restore with --from-savepoint one created with this declaration."
        )

    @property
    def operation_in_state_order(self) -> StreamOperation:
        """The operation, with its columns in the order of its state."""
        return keep_column_order(self.operation, self.identity)

    def checkpoint(self, state_folder: Path) -> Path:
        return state_folder.resolve() / "checkpoints" / self.operation.name / f"operation-{self.number}"


def expand_rebuild_names(app: App, names: Collection[str]) -> frozenset[str]:
    """Everything that is rebuilt with these names: an operation with its streams, and what is derived from those."""
    rebuild_names = set(names)
    for derivation in app.derivations:  # each after those it reads
        output_names = {stream.name for stream in app.derived_streams_of(derivation)}
        input_names = {stream.name for stream in derivation.inputs if isinstance(stream, DerivedStream)}
        if isinstance(derivation, StreamOperation) and not rebuild_names.isdisjoint(
            {derivation.name, *output_names, *input_names}
        ):
            rebuild_names |= {derivation.name, *output_names}
    return frozenset(rebuild_names)


def begin_operation_version(app: App, version: OperationVersion, state_folder: Path, broker: str) -> None:
    """Save the version; a rebuild deletes the output of the earlier one."""
    saved = _load_state(state_folder, version.operation.name) or {}
    first_offsets_by_topic: dict[str, dict[int, int]] = saved.get("begins", {})
    if saved and saved["number"] != version.number:
        spec = version.operation.spec
        changelog_topics = [spec.view.topic] if isinstance(spec, RetractableView) else []
        outputs = app.derived_streams_of(version.operation)
        end_offsets = delete_all_records(
            broker, [*changelog_topics, *(topic for output in outputs for topic in (output.name, *fate_topics(output)))]
        )
        first_offsets_by_topic = _group_by_topic(end_offsets)
    data = {
        "number": version.number,
        "terms": version.identity,
        "since_us": version.since_us,
        "begins": first_offsets_by_topic,
    }
    write_atomically(_state_file(state_folder, version.operation.name), json.dumps(data, indent=2))


def first_offsets(state_folder: Path) -> dict[str, dict[int, int]]:
    """The start offsets of the last rebuild by partition, for rebuilt topics; earlier records do not count."""
    offsets_by_topic: dict[str, dict[int, int]] = {}
    for file in sorted((state_folder / FOLDER).glob("*.json")):
        for topic, partition_offsets in json.loads(file.read_text()).get("begins", {}).items():
            offsets_by_topic[topic] = {int(number): offset for number, offset in partition_offsets.items()}
    return offsets_by_topic


def _group_by_topic(offsets: Mapping[Partition, int]) -> dict[str, dict[int, int]]:
    offsets_by_topic: dict[str, dict[int, int]] = {}
    for partition, offset in offsets.items():
        offsets_by_topic.setdefault(partition.topic, {})[partition.number] = offset
    return offsets_by_topic


def plan_operation_version(
    operation: StreamOperation, state_folder: Path, rebuild: bool = False, since_us: int | None = None
) -> OperationVersion:
    """Compare an operation with its saved version; nothing is written."""
    identity, saved = operation_identity(operation), _load_state(state_folder, operation.name)
    if saved is None:
        operation_label, input_topics = f"{operation_kind(identity)} {operation.name}", _input_topics(operation)
        first_change = f"{operation_label} is new: it is computed from the earliest record of {input_topics}"
        return OperationVersion(
            operation, 1, identity, changes=(first_change if has_run(state_folder) else "first run",)
        )
    if rebuild:
        rebuild_change = f"{operation.name} is computed again from its inputs' clean logs"
        return OperationVersion(operation, saved["number"] + 1, identity, since_us, (rebuild_change,))
    identity = operation_identity(keep_column_order(operation, saved["terms"]))
    changes = describe_changes(saved["terms"], identity)
    if not changes:
        return OperationVersion(operation, saved["number"], identity, saved["since_us"])
    labels = (
        str(operation.location),
        f"{operation_kind(saved['terms'])} {operation.name}",
    )  # of a view they are the same
    refusal = f"{': '.join(dict.fromkeys(labels))}: {' and '.join(changes)}."
    return OperationVersion(operation, saved["number"], saved["terms"], saved["since_us"], refusals=(refusal,))


def _input_topics(operation: StreamOperation) -> str:
    return " and ".join(stream.clean for stream in dict.fromkeys(operation.inputs))


def _state_file(state_folder: Path, name: str) -> Path:
    return state_folder / FOLDER / f"{name}.json"


def _load_state(state_folder: Path, name: str) -> dict[str, Any] | None:
    file = _state_file(state_folder, name)
    return json.loads(file.read_text()) if file.exists() else None
