"""A few aggregates over a hostile stream; BACKFILLED sets its name, as tests share a broker."""

import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import headrace as hr
from tests.oracle.everything import hostile_stream

EIGHT_DAYS = hr.Late("30s", then="update", until="8d")


def few_aggregates(name: str, stream: hr.Stream | Sequence[hr.Stream], by: str) -> hr.View:
    """What is quickly planned: numbers, text, and a sketch, over a window that ends and one that does not."""

    @hr.features(stream, by=by)
    class Few:
        number = hr.count(windows=["1h", "forever"])
        total = hr.sum("units", windows=["1h", "forever"])
        first = hr.first("label", windows=["1h", "forever"])
        last = hr.last("label", windows=["1h", "forever"])
        labels = hr.distinct("label", windows="forever")

    return replace(Few, name=name)


stream = hostile_stream(os.environ.get("BACKFILLED", "unnamed"), EIGHT_DAYS)
view = few_aggregates(f"By{stream.name}", stream, "card")
