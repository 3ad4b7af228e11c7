"""Reports of version 0.1.0, which have no `kind`: read for one release, then this module is deleted."""

from collections.abc import Mapping
from typing import Any

# The field that only one kind had.
KIND_BY_FIELD = {
    "query": "query",
    "checked": "consistency_check",
    "landed": "ingestion",
    "maintained": "maintenance",
    "part": "part",
    "scored": "scorer",
    "sunk": "sink",
    "relayed": "outbox",
    "bridged": "source",
    "captured": "capture",
    "watched": "alerting",
    "judged": "outcomes",
    "compared": "drift",
    "measured": "quality",
}


def untagged_kind(message: Mapping[str, Any]) -> str | None:
    """The kind of a report without one.

    >>> untagged_kind({"landed": "silver/payments", "at_us": 1})
    'ingestion'
    """
    return next((kind for field, kind in KIND_BY_FIELD.items() if field in message), None)
