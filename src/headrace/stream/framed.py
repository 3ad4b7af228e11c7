"""Records that name their schema: what is said of each by its head alone, the zero and the id it begins with."""

from collections.abc import Mapping

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.log.schemas.known import Known
from headrace.log.schemas.wire import HEADER, framed
from headrace.stream.learning import UNMET

HEAD = "head"
NOT_FRAMED = "not-framed: the value does not begin with a zero and the four bytes of a schema's id"


def head() -> Column:
    """The bytes of a record that name its schema."""
    return F.substring("value", 1, HEADER.size)


def payload() -> Column:
    """The bytes of a record after its head."""
    return F.substring("value", HEADER.size + 1, 2**31 - 1)


def is_of(schema_id: int) -> Column:
    """Whether a record names a schema."""
    return F.col(HEAD) == F.lit(framed(schema_id, b""))


def unread(of_each: Mapping[int, Column], unfit: Mapping[int, str], known: Known) -> Column:
    """Why a record has no event: by its head, and for schemas that can be read as `of_each` says of its payload."""
    is_framed = (F.length("value") >= HEADER.size) & (F.substring("value", 1, 1) == F.lit(b"\0"))
    said = F.when(F.col("value").isNull() | ~is_framed, NOT_FRAMED)
    for schema_id, why in of_each.items():
        said = said.when(is_of(schema_id), why)
    for schema_id, because in unfit.items():
        sentence = f"incompatible-schema: id {schema_id} cannot be read as the stream's columns: {because}"
        said = said.when(is_of(schema_id), F.lit(sentence))
    for schema_id in known.missing:
        said = said.when(is_of(schema_id), _unknown(F.lit(str(schema_id))))
    number = F.conv(F.hex(F.substring(HEAD, 2, 4)), 16, 10)
    if known.are_enough:
        return said.otherwise(_unknown(number))
    return said.otherwise(F.raise_error(F.concat(F.lit(f"{UNMET} "), number)).cast("string"))


def _unknown(schema_id: Column) -> Column:
    return F.concat(F.lit("unknown-schema: the registry knows no id "), schema_id)
