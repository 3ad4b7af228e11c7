"""A view with every aggregate over a hostile stream; BACKFILLED names the stream, for tests share a broker."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import headrace as hr
from tests.oracle.everything import every_aggregate, hostile_stream

EIGHT_DAYS = hr.Late("30s", then="update", until="8d")

stream = hostile_stream(os.environ["BACKFILLED"], EIGHT_DAYS)
view = every_aggregate(f"By{stream.name}", stream, "card")
