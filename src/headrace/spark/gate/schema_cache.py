"""A gate's cache of schemas: polls its subject every few seconds, and fetches an unknown id when a record has it.

    registry ──versions──▶ known ──▶ the gate's plan     payments: … 3 3 3 7 …
        ▲                    │                                           └ 7 is not in the plan: the query fails,
        └──── get id 7 ──────┴─ next to the checkpoint                     the cache fetches 7, and the query restarts

So a record is a dead letter for its id only if the registry has confirmed that there is no such id.
"""

import logging
import re
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headrace.declare.streams.stream import Stream
from headrace.errors import HeadraceError
from headrace.kafka.consumers.offset_range import read_offset_range
from headrace.kafka.offsets import OffsetClient
from headrace.kafka.schema_registry.known_schemas import SCHEMAS_FILE, KnownSchemas, read_known_schemas, to_json_text
from headrace.kafka.schema_registry.registry_client import (
    RegistryUnavailable,
    SchemaDefinition,
    SchemaRegistryClient,
    create_registry_client,
)
from headrace.kafka.schema_registry.wire_format import read_schema_id
from headrace.spark.checkpoints.checkpoint_files import committed_partition_offsets, write_atomically

POLL_SECONDS = 5.0
POLL_TIMEOUT_SECONDS = 2.0
RETRY_SECONDS = 2.0
MAX_RECORDS_SCANNED = 50_000
UNCACHED_SCHEMA_MARKER = "headrace: schema id"  # the prefix of the gate's error; the id follows
LOGGER = logging.getLogger("headrace.stream")
_UNCACHED_SCHEMA_PATTERN = re.compile(rf"{UNCACHED_SCHEMA_MARKER} (\d+)")


class SchemaCache:
    """The schemas that one gate knows, and their refresh from the registry."""

    def __init__(self, stream: Stream, broker: str, checkpoint: Path) -> None:
        assert stream.encoding is not None  # noqa: S101  # only such streams have registered schemas
        self._stream, self._encoding, self._broker = stream, stream.encoding, broker
        self._checkpoint, self._file = checkpoint, checkpoint.with_name(SCHEMAS_FILE)
        self._polled_at_s, self._was_unavailable = 0.0, False
        self.known_schemas = read_known_schemas(self._file)

    def refresh_schemas(self) -> object:
        """The schemas for the gate's plan; called every second, it polls for new versions every few seconds."""
        if time.monotonic() - self._polled_at_s > POLL_SECONDS:
            self._poll_registry()
            self._polled_at_s = time.monotonic()
        return self.known_schemas.schemas

    def _poll_registry(self) -> None:
        registry = create_registry_client(self._encoding.registry, POLL_TIMEOUT_SECONDS)
        try:
            if self.known_schemas.versions.issuperset(registry.list_version_numbers(self._encoding.subject)):
                self._was_unavailable = False
                return
            versions = registry.get_versions(self._encoding.subject)
        except HeadraceError as error:
            if not self._was_unavailable:
                LOGGER.warning(
                    "Could not refresh the schemas of %s, using the cached ones: %s", self._stream.name, error
                )
            self._was_unavailable = True
            return
        self._add_schemas({version.schema.id: version.schema for version in versions}, [one.number for one in versions])

    def repair(self, _spark: SparkSession, failure: Exception) -> None:
        """Fetch the unknown schema ids if they made the gate fail; else raise its failure again."""
        match = _UNCACHED_SCHEMA_PATTERN.search(str(failure)) if isinstance(failure, PySparkException) else None
        if match is None:
            raise failure
        schema_ids = {
            int(match[1]),
            *islice(self._uncached_schema_ids(), KnownSchemas.MAX_MISSING),
        } - self.known_schemas.schemas.keys()
        LOGGER.info("Fetching schemas of %s: %s", self._stream.name, ", ".join(map(str, sorted(schema_ids))))
        registry = create_registry_client(self._encoding.registry)
        self._add_schemas({schema_id: self._fetch_schema(registry, schema_id) for schema_id in sorted(schema_ids)})

    def _uncached_schema_ids(self) -> Iterator[int]:
        """The unknown schema ids in the gate's pending records, each once."""
        end_offsets = OffsetClient(self._broker).topic_end_offsets([self._stream.name])
        committed = committed_partition_offsets(self._checkpoint)
        start_offsets = {
            partition: max(start_offset, committed.get(partition, 0))
            for partition, start_offset in OffsetClient(self._broker).start_offsets(end_offsets).items()
        }
        seen_ids = set(self.known_schemas.schemas)
        for record in islice(read_offset_range(self._broker, start_offsets, end_offsets), MAX_RECORDS_SCANNED):
            schema_id = read_schema_id(record.value)
            if schema_id is not None and schema_id not in seen_ids:
                seen_ids.add(schema_id)
                yield schema_id

    def _fetch_schema(self, registry: SchemaRegistryClient, schema_id: int) -> SchemaDefinition | None:
        """The registry's schema of an id, or None if there is none; waits for a registry that is unavailable."""
        is_logged = False
        while True:
            try:
                return registry.get_schema(schema_id)
            except RegistryUnavailable as error:
                if not is_logged:
                    LOGGER.warning("Could not fetch schema %d of %s, retrying: %s", schema_id, self._stream.name, error)
                is_logged = True
                time.sleep(RETRY_SECONDS)

    def _add_schemas(self, schemas: dict[int, SchemaDefinition | None], versions: list[int] | None = None) -> None:
        self.known_schemas = self.known_schemas.merge(schemas, versions or ())
        write_atomically(self._file, to_json_text(self.known_schemas))
