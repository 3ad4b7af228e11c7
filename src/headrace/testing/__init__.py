"""Unit tests of features without Spark or a broker, with the production code of the gate, the fold and the reader.

>>> import headrace as hr
>>> payments = hr.Stream("payments", schema="id string, card string, at timestamp", id="id", key="card", time="at")
>>> @hr.features(payments, by="card")
... class CardSpend:
...     payments = hr.count(windows="10m")
>>> app = hr.testing.feed(CardSpend, [{"id": "p1", "card": "c1", "at": "2026-01-01T00:00:00Z"}])
>>> app.at("2026-01-01T00:05:00Z")["c1"].payments_10m
1
"""

from headrace.testing.arrivals import Arrival, duplicated, early, late, shuffled
from headrace.testing.event_records import UnfitQuestion
from headrace.testing.feature_feed import Dead, Fed, Moment, Row, feed
from headrace.testing.scripts.script import Script, script
from headrace.testing.scripts.steps import UnfitScript
from headrace.testing.undeclared_fields import UndeclaredField

__all__ = [
    "Arrival",
    "Dead",
    "Fed",
    "Moment",
    "Row",
    "Script",
    "UndeclaredField",
    "UnfitQuestion",
    "UnfitScript",
    "duplicated",
    "early",
    "feed",
    "late",
    "script",
    "shuffled",
]
