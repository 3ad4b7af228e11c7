"""Compares served values with recomputed ones: the pure part of `headrace check`.

    served       what the server said, and what that was made of: of each hop and stream, how many events, and the last
                 arrival
    by arrival   recomputed from the events that had arrived by then
    by event     recomputed from the events that had happened by the time asked

Where the recomputation finds another number of events than the served row had, some were in flight through the
stream at that time; such rows are not compared by arrival.
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

from headrace.aggregates.aggregate_function import aggregate_function, to_slot
from headrace.aggregates.sketches.frequent_items import key_text
from headrace.aggregates.value_columns import Mask
from headrace.declare.features.view import View
from headrace.declare.streams.schema import Kind
from headrace.declare.streams.union import STREAM_COLUMN
from headrace.lake.historical_features import ViewInputs, compute_past_features, count_past_events, known_column

OUTCOMES = ("exact", "rounded", "estimated", "in_flight", "wrong")
RELATIVE_TOLERANCE = 1e-9
MAX_WORST_ROWS = 5
MAX_EXPLAINING_EVENTS = 8


@dataclass
class ComparisonCounts:
    """How often one feature's served values equal the recomputed ones."""

    exact: int = 0
    rounded: int = 0  # doubles summed in another order
    estimated: int = 0  # sketches, within their stated error
    in_flight: int = 0
    wrong: int = 0
    largest: float = 0.0

    def add(self, other: "ComparisonCounts") -> None:
        for name in OUTCOMES:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.largest = max(self.largest, other.largest)


@dataclass
class CheckFindings:
    """The findings of a check: by feature, compared by arrival and by event, and the worst rows."""

    rows: int = 0
    by_arrival: dict[str, ComparisonCounts] = field(default_factory=dict)
    by_event: dict[str, ComparisonCounts] = field(default_factory=dict)
    worst: list[dict[str, Any]] = field(default_factory=list)

    def add(self, other: "CheckFindings") -> None:
        self.rows += other.rows
        for target, source in ((self.by_arrival, other.by_arrival), (self.by_event, other.by_event)):
            for name, counts in source.items():
                target.setdefault(name, ComparisonCounts()).add(counts)
        self.add_worst(*other.worst)

    def add_worst(self, *wrong_rows: dict[str, Any]) -> None:
        """Keep wrong rows, if they are among the worst."""
        self.worst = sorted([*self.worst, *wrong_rows], key=lambda row: -row["difference"])[:MAX_WORST_ROWS]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def outcomes(self) -> dict[str, int]:
        """How many values had each outcome, by arrival."""
        comparisons = self.by_arrival.values()
        return {name: sum(getattr(counts, name) for counts in comparisons) for name in OUTCOMES}

    @property
    def wrong(self) -> int:
        """How many values were neither equal to the recomputed ones nor in flight."""
        return self.outcomes["wrong"]


def compare_served(view: View, events: pa.Table, served: pa.Table) -> CheckFindings:
    """Compare served rows with the values recomputed from their entities' events.

    `events` are as `compute_past_features` takes them, known by arrival; `served` has its spine, the rows' JSON in
    `hr_row`, and in `hr_events_HOP_STREAM` how many events each hop held of a stream.
    """
    by_arrival = compute_past_features(view, events, served).to_pylist(maps_as_pydicts="strict")
    events_by_time = events.set_column(events.column_names.index("hr_known"), "hr_known", events["hr_time"])
    by_event = compute_past_features(view, events_by_time, _without_known_times(served)).to_pylist(
        maps_as_pydicts="strict"
    )
    in_flight, tolerances = _in_flight(view, events, served), _tolerances(view, events)
    findings = CheckFindings(len(served))
    for row_number, row in enumerate(served["hr_row"].to_pylist()):
        values = json.loads(row)["values"]
        for name in values.keys() & by_arrival[row_number].keys():
            recomputed = by_arrival[row_number][name]
            is_in_flight = in_flight[name][row_number]
            arrival_counts = (
                ComparisonCounts(in_flight=1)
                if is_in_flight
                else _compare_value(values[name], recomputed, tolerances[name])
            )
            event_counts = _compare_value(values[name], by_event[row_number][name], tolerances[name])
            findings.add(CheckFindings(by_arrival={name: arrival_counts}, by_event={name: event_counts}))
            if arrival_counts.wrong:
                difference = {
                    "served": values[name],
                    "recomputed": _to_json_value(recomputed),
                    "difference": arrival_counts.largest,
                }
                findings.add_worst({"feature": name, **difference, **_explain_row(view, events, served, row_number)})
    return findings


def _without_known_times(served: pa.Table) -> pa.Table:
    """The spine without known times: everything that had happened by the requested time."""
    return served.select([name for name in served.column_names if not name.startswith("hr_known_")])


def _in_flight(view: View, events: pa.Table, served: pa.Table) -> dict[str, Mask]:
    """For each feature, the rows whose hop held another number of events of some stream than is found."""
    differs_by_hop = {feature.window.hop_us: np.zeros(len(served), np.bool_) for feature in view.features}
    for hop_stream, event_counts in count_past_events(view, events, served).items():
        differs_by_hop[hop_stream[0]] |= event_counts != served[known_column("events", *hop_stream)].to_numpy()
    differs_anywhere: Mask = np.logical_or.reduce(list(differs_by_hop.values()))
    in_flight = {feature.name: differs_by_hop[feature.window.hop_us] for feature in view.features}
    return in_flight | {derived.name: differs_anywhere for derived in view.on_demand_features}


def _tolerances(view: View, events: pa.Table) -> dict[str, float]:
    """The tolerance of doubles summed in another order, and of counts of a map, as a share of the total.

    The error of other sketches has no bound.
    """
    inputs = ViewInputs(view)
    tolerances = dict.fromkeys(view.names, 0.0)
    for feature in view.features:
        slot, function = to_slot(feature.aggregate), aggregate_function(feature.aggregate.function)
        if feature.aggregate.is_map_valued:
            tolerances[feature.name] = feature.aggregate.error or 0.0
        elif slot.partial.is_sketch:
            tolerances[feature.name] = math.inf
        elif slot.kind is Kind.DOUBLE and slot.partial.is_rounded:
            magnitudes = np.abs(events[f"v{inputs.value_columns.index(str(slot.column))}"].to_numpy())
            finite_magnitudes = magnitudes[np.isfinite(magnitudes)]
            tolerances[feature.name] = function.rounding_tolerance(finite_magnitudes)
    return tolerances


def _compare_value(served: Any, recomputed: Any, tolerance: float) -> ComparisonCounts:
    recomputed = _to_json_value(recomputed)
    served = _parse_served(served, recomputed)
    if served == recomputed or _both_nan(served, recomputed):
        return ComparisonCounts(exact=1)
    difference = _difference(served, recomputed)
    if tolerance == math.inf or (isinstance(recomputed, dict) and difference <= tolerance * sum(recomputed.values())):
        return ComparisonCounts(estimated=1, largest=difference)
    if isinstance(recomputed, float) and difference <= max(tolerance, RELATIVE_TOLERANCE * max(1.0, abs(recomputed))):
        return ComparisonCounts(rounded=1, largest=difference)
    return ComparisonCounts(wrong=1, largest=difference)


def _to_json_value(value: Any) -> Any:
    """A recomputed value as JSON has it: keys of maps are text there."""
    if isinstance(value, dict):
        return {key_text(key): count for key, count in value.items()}
    return int(value) if isinstance(value, Decimal) else value


def _parse_served(served: Any, recomputed: Any) -> Any:
    """A value of a served row's JSON, in the type of the recomputed one."""
    if isinstance(recomputed, datetime) and isinstance(served, str):
        return datetime.fromisoformat(served)
    return float(served) if isinstance(recomputed, float) and isinstance(served, str | int) else served


def _both_nan(left: Any, right: Any) -> bool:
    return isinstance(left, float) and isinstance(right, float) and math.isnan(left) and math.isnan(right)


def _difference(served: Any, recomputed: Any) -> float:
    if isinstance(served, int | float) and isinstance(recomputed, int | float):
        distance = abs(served - recomputed)
        return distance if math.isfinite(distance) else math.inf
    if isinstance(served, dict) and isinstance(recomputed, dict):
        return float(max(abs(served.get(key, 0) - recomputed.get(key, 0)) for key in served.keys() | recomputed.keys()))
    return math.inf


def _explain_row(view: View, events: pa.Table, served: pa.Table, row_number: int) -> dict[str, Any]:
    """The row's entity and time, and the entity's last events by then."""
    row = served.slice(row_number, 1).to_pylist()[0]
    entity = {name: row[f"e{index}"] for index, name in enumerate(view.by)}
    entity_events = events
    for index in range(len(view.by)):
        entity_events = entity_events.filter(pc.equal(entity_events[f"e{index}"], row[f"e{index}"]))
    entity_events = entity_events.filter(pc.less_equal(entity_events["hr_known"], row["hr_at"])).sort_by(
        [("hr_known", "descending")]
    )
    last_events = [_event_identity(view, event) for event in entity_events.slice(0, MAX_EXPLAINING_EVENTS).to_pylist()]
    return {"entity": entity, "at_us": row["hr_at"], "last_events": last_events}


def _event_identity(view: View, event: Mapping[str, Any]) -> dict[str, Any]:
    """The identity of an event: its id, its times and, with several streams, its stream."""
    stream = view.sorted_streams[event.get("hr_stream", 0)]
    stream_name = {STREAM_COLUMN: stream.name} if len(view.streams) > 1 else {}
    return {stream.id: event["hr_id"], "time_us": event["hr_time"], "arrival_us": event["hr_known"]} | stream_name
