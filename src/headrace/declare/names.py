"""Names of a declaration's resources: topics, tables of the lake, queries, consumer groups and files.

stream payments     payments  payments.clean  …     bronze/payments  silver/payments  …     payments.gate
view CardSpend      CardSpend.tiles  .served        gold/CardSpend_tiles  …                  CardSpend.store
model fraud         fraud.predictions  …            gold/fraud_predictions  …                fraud.score

No other module builds such a name. `headrace.declare.name_collisions` refuses two declarations that share one.
"""

from collections.abc import Sequence

from headrace.errors import DeclarationError

BRONZE, SILVER, GOLD = "bronze/", "silver/", "gold/"
INTERNAL_PREFIX = "headrace"  # topics and consumer groups with this prefix belong to no declaration
STREAM_TOPIC_SUFFIXES = ("clean", "late", "dead", "dropped")
VIEW_TOPIC_SUFFIXES = ("tiles", "served")
MODEL_TOPIC_SUFFIXES = ("predictions", "quality", "clock", "lessons")
SINK_TOPIC_SUFFIXES = ("parked", "again")
RESERVED_TOPIC_SUFFIXES = tuple(
    f".{word}" for word in (*STREAM_TOPIC_SUFFIXES, *VIEW_TOPIC_SUFFIXES, *MODEL_TOPIC_SUFFIXES, *SINK_TOPIC_SUFFIXES)
)
SINK_RECORD_COLUMNS = ("hr_partition", "hr_offset", "hr_version")
# Columns that Headrace adds to tables of the lake, to live tables and to the rows of sinks.
LAKE_ROW_COLUMNS = ("hr_arrival", "hr_partition", "hr_offset", "hr_day")
LIVE_EVENT_TIME_COLUMN = "hr_event_time"
RESERVED_COLUMNS = frozenset({*LAKE_ROW_COLUMNS, LIVE_EVENT_TIME_COLUMN, *SINK_RECORD_COLUMNS})
# SQL keywords that must be quoted or written with their schema: DuckDB's reserved keywords.
_RESERVED_WORDS_TEXT = (
    "all analyse analyze and any array as asc asymmetric both case cast check collate column constraint create "
    "default deferrable desc describe distinct do else end except false fetch for foreign from group having in "
    "initially intersect into lambda lateral leading limit not null offset on only or order pivot pivot_longer "
    "pivot_wider placing primary qualify references returning select show some summarize symmetric table then to "
    "trailing true union unique unpivot using variadic when where window with "
)
SQL_RESERVED_WORDS = frozenset(_RESERVED_WORDS_TEXT.split())


def topic_name(name: str, suffix: str) -> str:
    """A topic of Headrace's own that belongs to a declaration.

    >>> topic_name("payments", "clean")
    'payments.clean'
    """
    return f"{name}.{suffix}"


def query_name(name: str, role: str) -> str:
    """A query or worker, as named by its lag and its logs.

    >>> query_name("payments", "gate")
    'payments.gate'
    """
    return f"{name}.{role}"


def consumer_group(role: str, name: str) -> str:
    """A consumer group whose members share the work of one declaration.

    >>> consumer_group("score", "fraud")
    'headrace.score.fraud'
    """
    return f"{INTERNAL_PREFIX}.{role}.{name}"


def bronze_table(stream: str) -> str:
    """The table of a stream's raw records."""
    return f"{BRONZE}{stream}"


def silver_table(stream: str, suffix: str = "") -> str:
    """The table of a stream's clean events or, with a suffix, of its late events or dead letters.

    >>> silver_table("payments"), silver_table("payments", "late")
    ('silver/payments', 'silver/payments_late')
    """
    return f"{SILVER}{stream}_{suffix}" if suffix else f"{SILVER}{stream}"


def gold_table(name: str, suffix: str) -> str:
    """A table derived from events.

    >>> gold_table("fraud", "predictions")
    'gold/fraud_predictions'
    """
    return f"{GOLD}{name}_{suffix}"


def late_output_table(derivation_name: str) -> str:
    """The lake's name for the late events of a pattern.

    Their stream is called `harsh_late`, and `silver/harsh_late` has the late events among the matches themselves.

    >>> late_output_table("harsh")
    'harsh-late'
    """
    return f"{derivation_name}-late"


def checkpoint_path(name: str, role: str) -> str:
    """The folder of a query's checkpoint, below STATE/checkpoints.

    >>> checkpoint_path("payments", "gate")
    'payments/gate'
    """
    return f"{name}/{role}"


def state_file_name(name: str) -> str:
    """The file of a declaration in a folder of the state."""
    return f"{name}.json"


def replication_slot_name(text: str) -> str:
    """A name that PostgreSQL accepts for a slot or a publication: lower case, without punctuation.

    >>> replication_slot_name("shop.Features")
    'shop_features'
    """
    return "".join(letter if letter in "abcdefghijklmnopqrstuvwxyz0123456789" else "_" for letter in text.lower())


def require_distinct_columns(columns: Sequence[str], where: str, *, noun: str = "columns") -> None:
    """Refuse names that differ in case alone: Spark and SQL take them for one."""
    names_by_lower_case: dict[str, str] = {}
    for name in columns:
        if (earlier_name := names_by_lower_case.setdefault(name.lower(), name)) != name:
            raise DeclarationError(
                f"{where}: the {noun} {earlier_name!r} and {name!r} differ in case alone, and SQL takes them for one. "
                f"Rename one, such as {name!r} to {f'{name}_2'!r}."
            )


def require_unreserved_columns(columns: Sequence[str], where: str) -> None:
    """Refuse columns that Headrace itself adds to tables."""
    for name in columns:
        if name.lower() in RESERVED_COLUMNS:
            raise DeclarationError(
                f"{where}: the column {name!r} has the name of one that Headrace adds to tables: "
                f"{', '.join(sorted(RESERVED_COLUMNS))}. Rename it."
            )
