"""What declarations are called elsewhere: their topics, tables of the lake, queries, consumer groups and files.

stream payments     payments  payments.clean  …     bronze/payments  silver/payments  …     payments.gate
view CardSpend      CardSpend.tiles  .served        gold/CardSpend_tiles  …                  CardSpend.store
model fraud         fraud.predictions  …            gold/fraud_predictions  …                fraud.score

Nothing else builds such a name. `headrace.declare.name_collisions` refuses two declarations that meet in one.
"""

from collections.abc import Sequence

from headrace.errors import DeclarationError

BRONZE, SILVER, GOLD = "bronze/", "silver/", "gold/"
INTERNAL = "headrace"  # topics and consumer groups that begin so belong to no declaration
OF_STREAMS = ("clean", "late", "dead", "dropped")
OF_VIEWS = ("tiles", "served")
OF_MODELS = ("predictions", "quality", "clock", "lessons")
OF_SINKS = ("parked", "again")
SUFFIXES = tuple(f".{word}" for word in (*OF_STREAMS, *OF_VIEWS, *OF_MODELS, *OF_SINKS))
OF_SINK_RECORDS = ("hr_partition", "hr_offset", "hr_version")
# Columns that Headrace adds to tables of the lake, to live tables and to the rows of sinks.
OF_LAKE_ROWS = ("hr_arrival", "hr_partition", "hr_offset", "hr_day")
OF_LIVE_ROWS = "hr_event_time"
RESERVED_COLUMNS = frozenset({*OF_LAKE_ROWS, OF_LIVE_ROWS, *OF_SINK_RECORDS})
# What SQL takes for its own word unless it is quoted or written with its schema: DuckDB's reserved keywords.
_SQL = (
    "all analyse analyze and any array as asc asymmetric both case cast check collate column constraint create "
    "default deferrable desc describe distinct do else end except false fetch for foreign from group having in "
    "initially intersect into lambda lateral leading limit not null offset on only or order pivot pivot_longer "
    "pivot_wider placing primary qualify references returning select show some summarize symmetric table then to "
    "trailing true union unique unpivot using variadic when where window with "
)
SQL_WORDS = frozenset(_SQL.split())


def topic_name(name: str, what: str) -> str:
    """A topic of Headrace's own that belongs to a declaration.

    >>> topic_name("payments", "clean")
    'payments.clean'
    """
    return f"{name}.{what}"


def query_name(name: str, what: str) -> str:
    """A query or worker, as its lag and its log name it.

    >>> query_name("payments", "gate")
    'payments.gate'
    """
    return f"{name}.{what}"


def consumer_group(what: str, name: str) -> str:
    """A consumer group whose members share the work of one declaration.

    >>> consumer_group("score", "fraud")
    'headrace.score.fraud'
    """
    return f"{INTERNAL}.{what}.{name}"


def bronze_table(stream: str) -> str:
    """The table of a stream's raw records."""
    return f"{BRONZE}{stream}"


def silver_table(stream: str, what: str = "") -> str:
    """The table of a stream's clean events or, with `what`, of its late events or dead letters.

    >>> silver_table("payments"), silver_table("payments", "late")
    ('silver/payments', 'silver/payments_late')
    """
    return f"{SILVER}{stream}_{what}" if what else f"{SILVER}{stream}"


def gold_table(name: str, what: str) -> str:
    """A table of what is made of events.

    >>> gold_table("fraud", "predictions")
    'gold/fraud_predictions'
    """
    return f"{GOLD}{name}_{what}"


def late_side_table(made_by: str) -> str:
    """What the lake calls the late events of a pattern.

    Their stream is called `harsh_late`, and `silver/harsh_late` has what came late among the matches themselves.

    >>> late_side_table("harsh")
    'harsh-late'
    """
    return f"{made_by}-late"


def checkpoint(name: str, what: str) -> str:
    """The folder of a query's checkpoint, below STATE/checkpoints.

    >>> checkpoint("payments", "gate")
    'payments/gate'
    """
    return f"{name}/{what}"


def state_file(name: str) -> str:
    """The file of a declaration in one of the folders of the state."""
    return f"{name}.json"


def replication_slot(text: str) -> str:
    """A name as PostgreSQL takes it for a slot or a publication: lower case, without punctuation.

    >>> replication_slot("shop.Features")
    'shop_features'
    """
    return "".join(letter if letter in "abcdefghijklmnopqrstuvwxyz0123456789" else "_" for letter in text.lower())


def require_distinct_columns(columns: Sequence[str], where: str, *, what: str = "columns") -> None:
    """Refuse names that differ in case alone, which Spark and SQL take for one."""
    seen: dict[str, str] = {}
    for name in columns:
        if (before := seen.setdefault(name.lower(), name)) != name:
            raise DeclarationError(
                f"{where}: the {what} {before!r} and {name!r} differ in case alone, and SQL takes them for one. "
                f"Rename one, such as {name!r} to {f'{name}_2'!r}."
            )


def require_unreserved_columns(columns: Sequence[str], where: str) -> None:
    """Refuse columns that Headrace adds to tables itself."""
    for name in columns:
        if name.lower() in RESERVED_COLUMNS:
            raise DeclarationError(
                f"{where}: the column {name!r} has the name of one that Headrace adds to tables: "
                f"{', '.join(sorted(RESERVED_COLUMNS))}. Rename it."
            )
