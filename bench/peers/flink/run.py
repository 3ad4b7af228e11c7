"""Run by Flink's own Python: queries in Flink SQL in a local cluster, as a process that takes orders.

python -m bench.peers.flink.run BROKER FOLDER KAFKA-CONNECTOR.jar
"""

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from pyflink.common import Configuration
from pyflink.table import EnvironmentSettings, TableEnvironment
from pyflink.table.table_result import TableResult

from bench.nexmark.orders import obey
from bench.peers.flink.sql import key_of, text_of

PARALLELISM = 2
STREAMS = {
    "persons": "number BIGINT, id BIGINT, name STRING, email STRING, card STRING, city STRING, state STRING",
    "auctions": "number BIGINT, id BIGINT, item STRING, description STRING, initial_bid BIGINT, reserve BIGINT, "
    "expires_ms BIGINT, seller BIGINT, category BIGINT, expires AS TO_TIMESTAMP_LTZ(expires_ms, 3)",
    "bids": "number BIGINT, auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING",
}
TIMES = (
    "extra STRING, happened_ms BIGINT, happened AS TO_TIMESTAMP_LTZ(happened_ms, 3), "
    "WATERMARK FOR happened AS happened - INTERVAL '4' SECOND"
)
# As Nexmark's own settings for Flink have it; checkpoints more often, since a run is short.
SETTINGS = {
    "parallelism.default": str(PARALLELISM),
    "table.local-time-zone": "UTC",
    "pipeline.object-reuse": "true",
    "state.backend.type": "rocksdb",
    "execution.checkpointing.incremental": "true",
    "execution.checkpointing.interval": "10 s",
    "taskmanager.memory.managed.size": "512m",
    "taskmanager.memory.network.min": "64m",
    "taskmanager.memory.network.max": "64m",
    "table.optimizer.distinct-agg.split.enabled": "true",
    "table.exec.mini-batch.size": "50000",
    "table.exec.mini-batch.allow-latency": "2 s",
}


class Engine:
    """Runs one query at a time."""

    def __init__(self, broker: str, folder: Path, connector: Path) -> None:
        self._broker = broker
        settings = SETTINGS | {
            "pipeline.jars": connector.as_uri(),
            "execution.checkpointing.dir": (folder / "checkpoints").as_uri(),
            "io.tmp.dirs": str(folder),
        }
        configuration = Configuration()
        for name, value in settings.items():
            configuration.set_string(name, value)
        in_streams = EnvironmentSettings.new_instance().in_streaming_mode()
        self._tables = TableEnvironment.create(in_streams.with_configuration(configuration).build())
        self._result: TableResult | None = None

    def drain(self, query: str, sources: Mapping[str, str], to: str) -> float:
        """Answer a query from all there is in its topics; how long it took, in seconds."""
        began = time.monotonic()
        self._inserted(query, sources, to, bounded=True).wait()
        return time.monotonic() - began

    def begin(self, query: str, sources: Mapping[str, str], to: str) -> None:
        """Start a query that runs until it is stopped."""
        self._result = self._inserted(query, sources, to, bounded=False)

    def stop(self) -> None:
        """Stop it."""
        if self._result is not None:
            self._result.get_job_client().cancel().result()
            self._result = None

    def _inserted(self, query: str, sources: Mapping[str, str], to: str, *, bounded: bool) -> TableResult:
        """Mini-batches favour throughput only; a measurement of latency needs each row at once."""
        self._tables.get_config().set("table.exec.mini-batch.enabled", str(bounded).lower())
        self._tables.get_config().set("execution.buffer-timeout.interval", "100 ms" if bounded else "2 ms")
        for name in STREAMS:
            self._tables.execute_sql(f"DROP TEMPORARY TABLE IF EXISTS {name}")
            self._tables.execute_sql(self._source(name, sources[name], bounded))
        text = text_of(query)
        self._tables.execute_sql("DROP TEMPORARY TABLE IF EXISTS answers")
        self._tables.execute_sql(self._sink(self._columns(text), to, key_of(text)))
        return self._tables.execute_sql(f"INSERT INTO answers\n{text}")

    def _source(self, name: str, topic: str, bounded: bool) -> str:
        options = {
            **self._kafka("kafka", topic),
            "format": "json",
            "scan.startup.mode": "earliest-offset",
            **({"scan.bounded.mode": "latest-offset"} if bounded else {}),
        }
        return f"CREATE TEMPORARY TABLE {name} ({STREAMS[name]}, {TIMES}) WITH ({_options(options)})"

    def _sink(self, columns: str, to: str, key: Sequence[str]) -> str:
        iso = "json.timestamp-format.standard"
        if not key:
            options = {**self._kafka("kafka", to), "format": "json", iso: "ISO-8601"}
            return f"CREATE TEMPORARY TABLE answers ({columns}) WITH ({_options(options)})"
        options = {
            **self._kafka("upsert-kafka", to),
            **{f"{part}.format": "json" for part in ("key", "value")},
            **{f"{part}.{iso}": "ISO-8601" for part in ("key", "value")},
        }
        names = ", ".join(f"`{name}`" for name in key)
        return (
            f"CREATE TEMPORARY TABLE answers ({columns}, PRIMARY KEY ({names}) NOT ENFORCED) WITH ({_options(options)})"
        )

    def _kafka(self, connector: str, topic: str) -> dict[str, str]:
        return {"connector": connector, "topic": topic, "properties.bootstrap.servers": self._broker}

    def _columns(self, query: str) -> str:
        """The columns of a query's answer, as SQL declares them."""
        schema = self._tables.sql_query(query)._j_table.getResolvedSchema()  # noqa: SLF001  # Python has not the text
        return ", ".join(
            f"`{column.getName()}` {column.getDataType().getLogicalType().asSerializableString()}"
            for column in schema.getColumns()
        )


def _options(options: Mapping[str, str]) -> str:
    return ", ".join(f"'{name}' = '{value}'" for name, value in options.items())


if __name__ == "__main__":
    _, broker, folder, connector = sys.argv
    obey(Engine(broker, Path(folder).absolute(), Path(connector).absolute()))
