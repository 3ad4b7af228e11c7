"""Reading events out of the formats whose schemas a registry keeps; each goes on as JSON.

avro      decoded by Spark itself, in the real-time lane
json      what follows the head is judged as any JSON is
protobuf  decoded in Python, through Arrow: no Python runs in the real-time lane, so its gate takes micro-batches
"""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import arrow_udf

from headrace.declare.stream import Stream
from headrace.log.schemas.formats import readable_of
from headrace.log.schemas.known import Known
from headrace.log.schemas.protobuf import ProtoReader, Undecodable, reader_of
from headrace.log.schemas.wire import HEADER, schema_id_of
from headrace.stream import avro
from headrace.stream.events import event_of, parsed, unreadable
from headrace.stream.framed import HEAD, head, payload, unread
from headrace.stream.lanes import Lane

OPENED = "written binary, why string"


def decoded(raw: DataFrame, stream: Stream, known: Known) -> DataFrame:
    """Records with their event, why they have none (`unread`), and the JSON that goes on (`written`)."""
    headed = raw.withColumn(HEAD, head())
    format_ = None if stream.encoded is None else stream.encoded.format
    if format_ == "avro":
        return avro.decoded(headed, stream, known)
    return _protobuf(headed, stream, known) if format_ == "protobuf" else _json(headed, stream, known)


def lane_of(stream: Stream) -> Lane:
    """The fastest lane that a stream's gate can run in."""
    is_python = stream.encoded is not None and stream.encoded.format == "protobuf"
    return Lane.MICRO_BATCH if is_python else Lane.REAL_TIME


def _json(headed: DataFrame, stream: Stream, known: Known) -> DataFrame:
    readable, unfit = readable_of(stream, known)
    said = {schema.id: F.lit(None).cast("string") for schema in readable}
    return _judged(headed.withColumn("written", payload()), stream, unread(said, unfit, known))


def _judged(written: DataFrame, stream: Stream, by_head: Column) -> DataFrame:
    """What is said of records whose JSON is in `written`, by their head first."""
    text = F.col("written")
    read = written.withColumn("json", parsed(text, stream)).withColumn("event", event_of(F.col("json"), stream))
    return read.withColumn("unread", F.coalesce(by_head, unreadable(text, stream)))


def _protobuf(headed: DataFrame, stream: Stream, known: Known) -> DataFrame:
    readable, unfit = readable_of(stream, known)
    readers = {schema.id: reader_of(schema.text, tuple(found)) for schema, found in readable.items()}
    opened = headed.withColumn("opened", _opening(readers)(F.col("value")))
    said = {schema.id: F.col("opened.why") for schema in readable}
    return _judged(opened.withColumn("written", F.col("opened.written")), stream, unread(said, unfit, known))


def _opening(readers: Mapping[int, ProtoReader]) -> Any:
    """A function of Arrow: the JSON of each value, or why it has none; of other schemas neither."""

    def opened(values: pa.Array) -> pa.Array:
        rows = [_opened(value, readers) for value in values.to_pylist()]
        return pa.array(rows, pa.struct([("written", pa.binary()), ("why", pa.string())]))

    return arrow_udf(opened, OPENED)  # type: ignore[call-overload]  # it takes its kind from the annotations


def _opened(value: bytes | None, readers: Mapping[int, ProtoReader]) -> dict[str, bytes | str | None]:
    schema_id = schema_id_of(value)
    reader = None if schema_id is None else readers.get(schema_id)
    if reader is None or value is None:
        return {"written": None, "why": None}
    try:
        return {"written": reader.json(value[HEADER.size :]), "why": None}
    except Undecodable as why:
        return {"written": None, "why": f"not-protobuf: the bytes are not those of schema {schema_id}: {why}"}
