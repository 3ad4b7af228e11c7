"""Reading events out of Avro with native Spark expressions: the decoder is chosen by the schema's id.

value  0 | 0 0 0 3 | payload ──▶ when the head is that of 3: from_avro(payload, schema 3, its part) ──▶ event
                                 of 4: …
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro

from headrace.declare.schema import Kind
from headrace.declare.stream import Stream
from headrace.log.schemas.avro import part_of, record_of
from headrace.log.schemas.formats import readable_of
from headrace.log.schemas.known import Known
from headrace.log.schemas.readings import Reading
from headrace.log.schemas.registry import Registered
from headrace.stream.events import AS_WRITTEN, timestamp
from headrace.stream.framed import is_of, payload, unread
from headrace.tiles.finish import FIRST_US, LAST_US

AS_JSON = {"timestampFormat": AS_WRITTEN}
_US = {"millis": 1000, "micros": 1}


@dataclass(frozen=True)
class Decoder:
    """How records of one schema are read: the column its payload is decoded to, and each of the stream's in it."""

    schema: Registered
    readings: Sequence[Reading]

    @property
    def name(self) -> str:
        return f"of_{self.schema.id}"

    def value(self, reading: Reading) -> Column:
        """What the field of a reading holds; null where it has none."""
        return F.lit(None) if reading.field is None else F.col(self.name).getField(reading.field.name)


def decoded(headed: DataFrame, stream: Stream, known: Known) -> DataFrame:
    """Records with their event, why they have none (`unread`), and the JSON that goes on (`written`)."""
    readable, unfit = readable_of(stream, known)
    decoders = [Decoder(schema, found) for schema, found in readable.items()]
    # Each payload has a column of its own: what is read from it is decoded once, not once a column.
    opened = headed.select("*", *(_payload(decoder).alias(decoder.name) for decoder in decoders))
    said = {decoder.schema.id: _undecoded(decoder) for decoder in decoders}
    return (
        opened.withColumn("event", _event(decoders, stream))
        .withColumn("unread", unread(said, unfit, known))
        .withColumn("written", F.to_json("event", AS_JSON).cast("binary"))
    )


def _payload(decoder: Decoder) -> Column:
    part = part_of(record_of(decoder.schema.text), decoder.readings)
    options = {"mode": "PERMISSIVE", "avroSchema": part}
    return F.when(is_of(decoder.schema.id), from_avro(payload(), decoder.schema.text, options))


def _event(decoders: Sequence[Decoder], stream: Stream) -> Column:
    columns = ", ".join(f"`{column.name}`: {column.type}" for column in stream.schema)
    chosen = F.lit(None).cast(f"struct<{columns}>")
    for one in decoders:
        typed = F.struct(*(_typed(one, reading).alias(reading.column.name) for reading in one.readings))
        chosen = F.when(is_of(one.schema.id), typed).otherwise(chosen)
    return chosen


def _typed(decoder: Decoder, reading: Reading) -> Column:
    """A column's value of its declared type; null where that does not hold it."""
    column, value = reading.column, decoder.value(reading)
    if reading.field is None:
        default = F.lit(reading.default)
        return timestamp(default) if column.kind is Kind.TIMESTAMP else default.cast(column.type)
    if column.kind is Kind.TIMESTAMP:
        return _time(value, reading.how)
    if column.kind is Kind.STRING:
        text = value.cast("string")
        return F.when(F.is_valid_utf8(text), text)
    if column.type in ("tinyint", "smallint"):
        half = 1 << (7 if column.type == "tinyint" else 15)
        return F.when(value.between(-half, half - 1), value.cast(column.type))
    return value.cast(column.type)


def _time(value: Column, how: str) -> Column:
    """A moment within the calendar; null for one beyond it, which no JSON could say."""
    if how == "text":
        return timestamp(value)
    if how == "nanos":
        thousand = F.lit(1000).cast("bigint")
        return F.timestamp_micros(F.call_function("div", value - F.pmod(value, thousand), thousand))
    unit = _US[how]
    moment = F.timestamp_micros(value * F.lit(unit).cast("bigint"))
    return F.when(value.between(-(-FIRST_US // unit), LAST_US // unit), moment)


def _undecoded(decoder: Decoder) -> Column:
    """Why a payload is no event: a decoder gives nulls alone for bytes that are not of its schema."""
    found = [one for one in decoder.readings if one.field is not None]
    nothing = reduce(and_, (decoder.value(one).isNull() for one in found))
    sentence = f"not-avro: the bytes are not those of schema {decoder.schema.id}"
    return F.coalesce(F.when(nothing, sentence), *(_misfit(decoder, one) for one in found))


def _misfit(decoder: Decoder, reading: Reading) -> Column:
    """A value that its column does not hold: out of range, or no text."""
    column, value = reading.column, decoder.value(reading)
    is_lost = value.isNotNull() & F.col("event").getField(column.name).isNull()
    shown = F.lit("it is not UTF-8") if column.kind is Kind.STRING else F.substring(value.cast("string"), 1, 80)
    return F.when(is_lost, F.concat(F.lit(f"wrong-type: column {column.name} is not a {column.type}: "), shown))
