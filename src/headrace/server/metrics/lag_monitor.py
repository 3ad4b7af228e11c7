"""Consumer lag of every reader of the log, polled four times a second, and published as consumer groups.

payments.gate        payments         the last raw offset with a fate, plus the number of fates not read yet
payments.tiles-0     payments.clean   the newest event in a tile by arrival, or the checkpoint
abroad.derive        payments.clean   its committed offset, where it commits each second
fraud.score          payments.clean   the committed offset of its group
CardSpend.store      CardSpend.tiles  this server's position, or the committed offset of the group that fills Redis
silver/payments.lake payments.clean   the end of the last step
SINK.sink            payments.clean   the committed offset of its group
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Self

from headrace.declare.app import App
from headrace.declare.operations.derived_stream import Derivation
from headrace.declare.streams.stream import Stream
from headrace.errors import HeadraceError
from headrace.kafka.consumers.consumer_groups import ConsumerGroupOffsets
from headrace.kafka.consumers.consumer_lag import LagSnapshot, LagTracker
from headrace.kafka.consumers.tailing_consumer import SHORT_REQUEST_TIMEOUT_SECONDS
from headrace.kafka.ledger import Ledger
from headrace.kafka.offsets import OffsetClient
from headrace.kafka.record import Partition
from headrace.kafka.status.progress_table import ProgressTable
from headrace.kafka.status.reports.lake import IngestionProgress
from headrace.kafka.status.reports.queries import QueryProgress
from headrace.models.stream_scoring.scoring_part import scoring_group as scorer_group
from headrace.online_store.changelog_applier import apply_group as store_group
from headrace.online_store.memory.memory_store_reader import OnlineStoreReader
from headrace.server.metrics.ledgers import StreamLedgers

POLL_SECONDS = 0.25
MAX_BUSY_SHARE, MAX_POLL_SECONDS = 0.1, 1.0  # with thousands of partitions polls are further apart
PUBLISH_SECONDS = 5.0
PARTITION_REFRESH_SECONDS = 10.0
LOGGER = logging.getLogger("headrace.serve")

PartitionOffsets = dict[Partition, int]


@dataclass(frozen=True)
class LogConsumers:
    """Every consumer of an app's log, and the sources of their offsets."""

    app: App
    progress_table: ProgressTable
    ledgers: StreamLedgers
    online: OnlineStoreReader

    def uncommitted_offsets(self) -> dict[str, PartitionOffsets]:
        """The offsets of queries that do not commit to a consumer group."""
        ledgers = self.ledgers.caught_up_ledgers
        streams = [stream for stream in self.app.streams if stream.name in ledgers]
        gate_offsets = {f"{stream.name}.gate": _gate_offsets(stream, ledgers[stream.name]) for stream in streams}
        tile_offsets = {
            progress.query: self._tile_offsets(progress, stream, ledgers[stream.name])
            for stream in streams
            for progress in self.tile_queries(stream)
        }
        return (
            gate_offsets
            | tile_offsets
            | self.derivation_offsets()
            | self._store_offsets(self.online.next_offsets)
            | self._lake_offsets()
        )

    def derivation_offsets(self) -> dict[str, PartitionOffsets]:
        """The offsets of derivations that commit each batch; in real time mode checkpoints are minutes old: not lag."""
        progress_by_query = self.progress_table.reports(QueryProgress).copy()
        running_derivations = [
            derivation
            for derivation in self.app.derivations
            if derivation.query in progress_by_query and progress_by_query[derivation.query].lane == "micro-batch"
        ]
        return {one.query: dict(_derivation_offsets(one, progress_by_query[one.query])) for one in running_derivations}

    def ledger_offsets(self) -> dict[str, Mapping[Partition, int]]:
        """For each gate, the next offsets its ledger reads in the gate's topics."""
        return {f"{name}.gate": self.ledgers.next_offsets(name) for name in self.ledgers.caught_up_ledgers}

    def consumer_groups(self) -> dict[str, str]:
        """The consumer groups by query; the store's group covers all views."""
        scorer_groups = {f"{model.name}.score": scorer_group(model) for model in self.app.models}
        store_groups = {"store": store_group(self.app.views)} if self.app.views and not self.online.tables else {}
        return scorer_groups | store_groups | {sink.query: sink.group for sink in self.app.sinks}

    def topics_by_group(self) -> dict[str, set[str]]:
        """The topics that each of these groups reads."""
        topics_by_query = {f"{model.name}.score": {model.stream.clean} for model in self.app.models}
        topics_by_query["store"] = {view.topic for view in self.app.views}
        topics_by_query |= {sink.query: {sink.source_topic, sink.again} for sink in self.app.sinks}
        return {group: topics_by_query[query] for query, group in self.consumer_groups().items()}

    def committed_offsets(self, committed: dict[str, PartitionOffsets]) -> dict[str, PartitionOffsets]:
        """The committed offsets of these groups by query."""
        offsets_by_query = {query: committed.get(group, {}) for query, group in self.consumer_groups().items()}
        store_offsets = self._store_offsets(offsets_by_query.pop("store", {}))
        return offsets_by_query | store_offsets

    def stepwise_queries(self) -> set[str]:
        """The queries that run in steps of minutes."""
        return {_lake_query(report.landed) for report in self.progress_table.latest(IngestionProgress)}

    def tile_queries(self, stream: Stream) -> Iterable[QueryProgress]:
        """The queries that compute the views of a stream: for each view the one that reported last."""
        reports = sorted(self.progress_table.latest(QueryProgress), key=lambda report: report.at_us)
        newest_by_view = {view: one for one in reports if one.stream == stream.name for view in one.views}
        view_names = {view.name for view in self.app.views_of(stream)}
        return {one.query: one for view, one in newest_by_view.items() if view in view_names}.values()

    def _tile_offsets(self, progress: QueryProgress, stream: Stream, ledger: Ledger) -> PartitionOffsets:
        tables = [self.online.tables[view] for view in progress.views if view in self.online.tables]
        if not tables or not self.online.next_offsets:
            return {}  # checkpoints alone are minutes old, which is not lag
        arrived_offsets = ledger.clean_offsets_by_arrival(max(table.newest_arrival_us(stream) for table in tables))
        checkpoint_offsets = {int(partition): offset for partition, offset in progress.reached.items()}
        partitions = arrived_offsets.keys() | checkpoint_offsets.keys()
        return {
            Partition(stream.clean, n): max(arrived_offsets.get(n, 0), checkpoint_offsets.get(n, 0))
            for n in sorted(partitions)
        }

    def _store_offsets(self, offsets: Mapping[Partition, int]) -> dict[str, PartitionOffsets]:
        queries_by_topic = {view.topic: f"{view.name}.store" for view in self.app.views}
        offsets_by_query: dict[str, PartitionOffsets] = {}
        for partition, offset in offsets.items():
            offsets_by_query.setdefault(queries_by_topic[partition.topic], {})[partition] = offset
        return offsets_by_query

    def _lake_offsets(self) -> dict[str, PartitionOffsets]:
        return {
            _lake_query(progress.landed): {
                Partition(progress.topic, int(n)): offset for n, offset in progress.reached.items()
            }
            for progress in self.progress_table.latest(IngestionProgress)
        }


def _gate_offsets(stream: Stream, ledger: Ledger) -> PartitionOffsets:
    return {Partition(stream.name, number): offset for number, offset in ledger.next_raw_offsets().items()}


def advance_by_unread_fates(
    gate_offsets: PartitionOffsets, ledger_offsets: Mapping[Partition, int], end_offsets: Mapping[Partition, int]
) -> PartitionOffsets:
    """Advance a gate's offsets by the records its ledger has not read: each of them is the fate of one more record.

    raw      ├───── classified, as read by the ledger ──────┤── unread fates ──┤   waits   ┤ end
    """
    unread_counts = Counter[int]()
    for partition, offset in ledger_offsets.items():
        unread_counts[partition.number] += max(0, end_offsets.get(partition, offset) - offset)
    return {
        raw_partition: min(offset + unread_counts[raw_partition.number], end_offsets.get(raw_partition, offset))
        for raw_partition, offset in gate_offsets.items()
    }


def _derivation_offsets(derivation: Derivation, progress: QueryProgress) -> Iterator[tuple[Partition, int]]:
    """The offsets a derivation has reached; with one input, it reports only partition numbers."""
    for partition_name, offset in progress.reached.items():
        topic, _, number = partition_name.rpartition("-")
        yield Partition(topic or derivation.inputs[0].clean, int(number)), offset


def _lake_query(table: str) -> str:
    return f"{table}.lake"


class LagMonitor:
    """Polls four times a second, so that no request waits for the broker."""

    def __init__(self, broker: str, consumers: LogConsumers, *, publishes_groups: bool) -> None:
        """With `publishes_groups`, offsets that no group has are committed to groups every few seconds."""
        self.consumer_lag = LagSnapshot()
        self.consumers, self._publishes_groups = consumers, publishes_groups
        self._offset_client, self._group_offsets, self._lag_tracker = (
            OffsetClient(broker, SHORT_REQUEST_TIMEOUT_SECONDS),
            ConsumerGroupOffsets(broker, SHORT_REQUEST_TIMEOUT_SECONDS),
            LagTracker(),
        )
        self._published_at_s = self._partitions_listed_at_s = self._groups_listed_at_s = -PARTITION_REFRESH_SECONDS
        self._partitions_by_group: dict[str, list[Partition]] = {}
        self._requested_partitions, self._existing_partitions = set[Partition](), set[Partition]()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._poll_until_stopped, name="lag", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_failure: object) -> None:
        self._stopping.set()
        self._thread.join()
        self._group_offsets.close()

    def poll(self) -> None:
        """Poll once."""
        uncommitted = self.consumers.uncommitted_offsets()
        committed = self.consumers.committed_offsets(
            self._group_offsets.read_committed_offsets(self._group_partitions())
        )
        ledger_offsets = self.consumers.ledger_offsets()
        all_offsets = [*uncommitted.values(), *committed.values(), *ledger_offsets.values()]
        end_offsets = self._offset_client.end_offsets(
            self._keep_existing({partition for offsets in all_offsets for partition in offsets})
        )
        self.consumers.ledgers.update_raw_ends(end_offsets)
        uncommitted |= {
            gate: advance_by_unread_fates(uncommitted[gate], next_offsets, end_offsets)
            for gate, next_offsets in ledger_offsets.items()
            if gate in uncommitted
        }
        offsets_by_query = uncommitted | committed
        self.consumer_lag = self._lag_tracker.take_snapshot(
            offsets_by_query, end_offsets, time.monotonic(), self.consumers.stepwise_queries()
        )
        if self._publishes_groups and time.monotonic() - self._published_at_s >= PUBLISH_SECONDS:
            self._published_at_s = time.monotonic()
            self._group_offsets.publish_offsets(dict(_published_groups(self.consumers.app.name, uncommitted)))

    def _group_partitions(self) -> dict[str, list[Partition]]:
        """The partitions that groups read, refreshed periodically."""
        if time.monotonic() - self._groups_listed_at_s >= PARTITION_REFRESH_SECONDS:
            topics = self.consumers.topics_by_group()
            partitions = self._offset_client.list_partitions(
                {topic for group_topics in topics.values() for topic in group_topics}
            )
            self._partitions_by_group = {
                group: [partition for partition in partitions if partition.topic in some]
                for group, some in topics.items()
            }
            self._groups_listed_at_s = time.monotonic()
        return self._partitions_by_group

    def _keep_existing(self, partitions: set[Partition]) -> set[Partition]:
        """The partitions that exist: a lake table may be of a deleted topic."""
        if (
            partitions != self._requested_partitions
            or time.monotonic() - self._partitions_listed_at_s >= PARTITION_REFRESH_SECONDS
        ):
            existing = set(self._offset_client.list_partitions({partition.topic for partition in partitions}))
            self._requested_partitions, self._existing_partitions, self._partitions_listed_at_s = (
                partitions,
                partitions & existing,
                time.monotonic(),
            )
        return self._existing_partitions

    def _poll_until_stopped(self) -> None:
        took_s = 0.0
        while not self._stopping.wait(min(max(POLL_SECONDS, took_s / MAX_BUSY_SHARE), MAX_POLL_SECONDS)):
            started_s = time.monotonic()
            try:
                self.poll()
            except HeadraceError as problem:  # while a broker restarts the last known lag stays
                LOGGER.info("Could not read consumer lag: %s", problem)
            except Exception:
                LOGGER.exception("Could not read consumer lag")
            took_s = time.monotonic() - started_s


def _published_groups(
    app: str, offsets_by_query: dict[str, PartitionOffsets]
) -> Iterator[tuple[str, PartitionOffsets]]:
    """The offsets to publish, of queries that have any, by a group name that other tools accept."""
    for query, offsets in offsets_by_query.items():
        if offsets:
            yield f"headrace.{app}.{query.replace('/', '.')}", offsets
