"""Served values against recomputed ones, one by one: the pure part of `headrace check`.

    served       what the server said, and what that was made of: of each hop and stream, how many events, and the last
                 arrival
    by arrival   recomputed from the events that had arrived by then
    by event     recomputed from the events that had happened by the time asked

Where the recomputation finds another number of events than the answer was made of, some were on their way through the
stream just then: in flight, and not compared by arrival.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.declare.schema import Kind
from headrace.declare.union import STREAM
from headrace.declare.views import View
from headrace.lake.lookback import Reads, events_in, features_at, known_name
from headrace.tiles.columns import Mask
from headrace.tiles.frequent import key_text
from headrace.tiles.layout import SKETCHES, Partial, slot_of

OUTCOMES = ("exact", "rounded", "estimated", "in_flight", "wrong")
CLOSE = 1e-9
ROUNDING = 1e-14  # of the sum of absolute values: a hundred times the precision of a double
ADDED_UP = {Partial.FLOAT_SUM, Partial.MOMENTS, Partial.DECAYED}
WORST = 5
EXPLAINING = 8


@dataclass
class Compared:
    """How often one feature's served values were what was recomputed."""

    exact: int = 0
    rounded: int = 0  # doubles added up in another order
    estimated: int = 0  # sketches, within what they state
    in_flight: int = 0
    wrong: int = 0
    largest: float = 0.0

    def add(self, other: "Compared") -> None:
        for name in OUTCOMES:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.largest = max(self.largest, other.largest)


@dataclass
class Findings:
    """What a check found: by feature, compared by arrival and by event, and the worst rows."""

    rows: int = 0
    by_arrival: dict[str, Compared] = field(default_factory=dict)
    by_event: dict[str, Compared] = field(default_factory=dict)
    worst: list[dict[str, Any]] = field(default_factory=list)

    def add(self, other: "Findings") -> None:
        self.rows += other.rows
        for mine, theirs in ((self.by_arrival, other.by_arrival), (self.by_event, other.by_event)):
            for name, compared in theirs.items():
                mine.setdefault(name, Compared()).add(compared)
        self.tell(*other.worst)

    def tell(self, *wrong: dict[str, Any]) -> None:
        """Keep rows that were wrong, if they are among the worst."""
        self.worst = sorted([*self.worst, *wrong], key=lambda row: -row["difference"])[:WORST]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def outcomes(self) -> dict[str, int]:
        """How many values were what, by arrival."""
        found = self.by_arrival.values()
        return {name: sum(getattr(compared, name) for compared in found) for name in OUTCOMES}

    @property
    def wrong(self) -> int:
        """How many values were neither what had arrived says, nor in flight."""
        return self.outcomes["wrong"]


def check(view: View, events: pa.Table, served: pa.Table) -> Findings:
    """Compare served rows with what their entities' events say.

    `events` are as `lookback` takes them, known by arrival; `served` has its spine, and the answers' JSON in `hr_row`
    and `hr_events_HOP_STREAM`, of how many events each hop held of a stream.
    """
    by_arrival = features_at(view, events, served).to_pylist(maps_as_pydicts="strict")
    as_happened = events.set_column(events.column_names.index("hr_known"), "hr_known", events["hr_time"])
    by_event = features_at(view, as_happened, _as_asked(served)).to_pylist(maps_as_pydicts="strict")
    in_flight, slack = _in_flight(view, events, served), _slack(view, events)
    findings = Findings(len(served))
    for number, row in enumerate(served["hr_row"].to_pylist()):
        values = json.loads(row)["values"]
        for name in values.keys() & by_arrival[number].keys():
            found = by_arrival[number][name]
            flying = in_flight[name][number]
            arrived = Compared(in_flight=1) if flying else _compared(values[name], found, slack[name])
            happened = _compared(values[name], by_event[number][name], slack[name])
            findings.add(Findings(by_arrival={name: arrived}, by_event={name: happened}))
            if arrived.wrong:
                difference = {"served": values[name], "recomputed": _plain(found), "difference": arrived.largest}
                findings.tell({"feature": name, **difference, **_told(view, events, served, number)})
    return findings


def _as_asked(served: pa.Table) -> pa.Table:
    """The spine without what was known when: everything that had happened by the time asked."""
    return served.select([name for name in served.column_names if not name.startswith("hr_known_")])


def _in_flight(view: View, events: pa.Table, served: pa.Table) -> dict[str, Mask]:
    """Of each feature, the rows whose hop held another number of events of some stream than is found."""
    differs = {feature.window.hop_us: np.zeros(len(served), np.bool_) for feature in view.features}
    for place, found in events_in(view, events, served).items():
        differs[place[0]] |= found != served[known_name("events", *place)].to_numpy()
    anywhere: Mask = np.logical_or.reduce(list(differs.values()))
    kept = {feature.name: differs[feature.window.hop_us] for feature in view.features}
    return kept | {one.name: anywhere for one in view.derived}


def _slack(view: View, events: pa.Table) -> dict[str, float]:
    """How far doubles added up in another order may lie apart, and counts of a map, as a share of them all.

    Nothing bounds what other sketches may say.
    """
    reads = Reads(view)
    slack = dict.fromkeys(view.names, 0.0)
    for feature in view.features:
        slot = slot_of(feature.aggregate)
        if feature.aggregate.gives_a_map:
            slack[feature.name] = feature.aggregate.error or 0.0
        elif slot.partial in SKETCHES:
            slack[feature.name] = math.inf
        elif slot.kind is Kind.DOUBLE and slot.partial in ADDED_UP:
            numbers = np.abs(events[f"v{reads.values.index(str(slot.column))}"].to_numpy())
            sizes = numbers[np.isfinite(numbers)]
            power = 2 if feature.aggregate.function == "var" else 1
            slack[feature.name] = ROUNDING * float((sizes**power).sum())
    return slack


def _compared(served: Any, found: Any, slack: float) -> Compared:
    found = _plain(found)
    served = _read(served, found)
    if served == found or _both_nan(served, found):
        return Compared(exact=1)
    difference = _difference(served, found)
    if slack == math.inf or (isinstance(found, dict) and difference <= slack * sum(found.values())):
        return Compared(estimated=1, largest=difference)
    if isinstance(found, float) and difference <= max(slack, CLOSE * max(1.0, abs(found))):
        return Compared(rounded=1, largest=difference)
    return Compared(wrong=1, largest=difference)


def _plain(found: Any) -> Any:
    """A recomputed value as JSON has it: keys of maps are text there."""
    if isinstance(found, dict):
        return {key_text(key): count for key, count in found.items()}
    return int(found) if isinstance(found, Decimal) else found


def _read(served: Any, found: Any) -> Any:
    """A value of an answer's JSON as the type it stands for."""
    if isinstance(found, datetime) and isinstance(served, str):
        return datetime.fromisoformat(served)
    return float(served) if isinstance(found, float) and isinstance(served, str | int) else served


def _both_nan(one: Any, other: Any) -> bool:
    return isinstance(one, float) and isinstance(other, float) and math.isnan(one) and math.isnan(other)


def _difference(served: Any, found: Any) -> float:
    if isinstance(served, int | float) and isinstance(found, int | float):
        apart = abs(served - found)
        return apart if math.isfinite(apart) else math.inf
    if isinstance(served, dict) and isinstance(found, dict):
        return float(max(abs(served.get(key, 0) - found.get(key, 0)) for key in served.keys() | found.keys()))
    return math.inf


def _told(view: View, events: pa.Table, served: pa.Table, number: int) -> dict[str, Any]:
    """Whose row it is, when, and the entity's last events by then."""
    row = served.slice(number, 1).to_pylist()[0]
    entity = {name: row[f"e{index}"] for index, name in enumerate(view.by)}
    mine = events
    for index in range(len(view.by)):
        mine = mine.filter(pc.equal(mine[f"e{index}"], row[f"e{index}"]))
    mine = mine.filter(pc.less_equal(mine["hr_known"], row["hr_at"])).sort_by([("hr_known", "descending")])
    last = [_explaining(view, event) for event in mine.slice(0, EXPLAINING).to_pylist()]
    return {"entity": entity, "at_us": row["hr_at"], "last_events": last}


def _explaining(view: View, event: Mapping[str, Any]) -> dict[str, Any]:
    """What tells an event from others: its id, its times and, where there are several, its stream."""
    stream = view.streams_by_name[event.get("hr_stream", 0)]
    named = {STREAM: stream.name} if len(view.streams) > 1 else {}
    return {stream.id: event["hr_id"], "time_us": event["hr_time"], "arrival_us": event["hr_known"]} | named
