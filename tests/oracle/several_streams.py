"""Several hostile streams for one view: different columns, id and time names, narrower types, equal ids."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

import headrace as hr
from headrace.declare.features.view import View
from tests.oracle import brute
from tests.oracle.everything import WINDOWS, hostile_stream
from tests.oracle.streams import Sent, hostile

REFUND_NAMES = {"id": "number", "at": "back_at"}
REFUND_SCHEMA = (
    "number string, card string, region string, shop bigint, amount float, units bigint, label string, "
    "reason string, back_at timestamp"
)
VISIT_SCHEMA = "id string, card string, region string, shop int, pages smallint, at timestamp"
EITHER = {"too-far-ahead", "missing-id", "missing-key", "missing-time"}  # flaws that any of the schemas has


def payments(late: hr.Late, name: str = "payments") -> hr.Stream:
    return hostile_stream(name, late)


def refunds(late: hr.Late, name: str = "refunds") -> hr.Stream:
    return hr.Stream(name, schema=REFUND_SCHEMA, id="number", key="card", time="back_at", late=late)


def visits(late: hr.Late, name: str = "visits") -> hr.Stream:
    return hr.Stream(name, schema=VISIT_SCHEMA, id="id", key="card", time="at", late=late, partitions=3)


def refund(one: Sent) -> Sent | None:
    """A payment as a refund: the same id at the same time, with another label and a narrower amount."""
    if one.flaw and one.flaw not in EITHER:
        return None
    gone = {"flag", "seen", "unknown"}
    event = {REFUND_NAMES.get(name, name): value for name, value in one.event.items() if name not in gone}
    values = {REFUND_NAMES.get(name, name): value for name, value in one.values.items() if name not in gone}
    label = one.values["label"] and one.values["label"][::-1] + "r"
    amount = None if values["amount"] is None else float(np.float32(values["amount"]))
    changed = {"label": label, "reason": one.values["region"]}
    return replace(one, event=event | changed, values=values | changed | {"amount": amount})


def visit(one: Sent) -> Sent | None:
    """A payment as a visit, which has neither amount nor label."""
    if one.flaw and one.flaw not in EITHER:
        return None
    kept, pages = {"id", "card", "region", "shop", "at"}, len(one.values["card"] or "") - 2
    event = {name: value for name, value in one.event.items() if name in kept}
    values = {name: value for name, value in one.values.items() if name in kept}
    return replace(one, event=event | {"pages": pages}, values=values | {"pages": pages})


def sent_to(streams: Sequence[hr.Stream], made: list[Sent], others: list[Sent]) -> dict[str, list[Sent]]:
    """What each stream is sent: payments and refunds of the same ids and times, and other visits."""
    found: dict[str, list[Sent]] = {}
    for stream in streams:
        if "reason" in stream.schema:
            found[stream.name] = [changed for one in made if (changed := refund(one))]
        elif "pages" in stream.schema:
            found[stream.name] = [changed for one in others if (changed := visit(one))]
        else:
            found[stream.name] = made
    return found


def hostile_to(streams: Sequence[hr.Stream], seed: int, count: int = 100) -> dict[str, list[Sent]]:
    """Hostile events of each stream, in the order they arrive; all lie in one span of time."""
    made = hostile(seed, count)
    middle_us = sorted(one.values["at"] for one in made)[len(made) // 2]
    return sent_to(streams, made, hostile(seed + 1_000, count, base_us=middle_us, span_us=1_800_000_000))


def counted(view: View, sent: Mapping[str, Sequence[Sent]]) -> list[dict[str, Any]]:
    """The events that count, of all streams as one."""
    return brute.united(view, {stream.name: brute.counted(stream, sent[stream.name]) for stream in view.streams})


def of_streams(name: str, streams: Sequence[hr.Stream], by: str | Sequence[str]) -> View:
    """Aggregates of what only one stream has, and of the stream itself."""

    @hr.features(streams, by=by)
    class OfStreams:
        number = hr.count(windows=WINDOWS)
        refunds = hr.count(where="stream = 'refunds'", windows=WINDOWS)
        unknown = hr.count(where="label is null and stream <> 'visits'", windows=WINDOWS)
        reasons = hr.count(by="reason", windows=WINDOWS)
        reason = hr.last("reason", windows=WINDOWS)
        shops = hr.sum("shop", windows=WINDOWS)
        returned = hr.sum("amount", where="stream = 'refunds'", windows=WINDOWS)
        spread = hr.stddev("amount", where="abs(amount) < 1e6", windows=WINDOWS)
        flags = hr.last("flag", windows=WINDOWS)
        streams = hr.distinct("stream", windows=WINDOWS)
        by_stream = hr.count(by="stream", windows=WINDOWS)
        busiest = hr.top("stream", 2, windows=WINDOWS)
        first_of = hr.first("stream", windows=WINDOWS)
        last_of = hr.last("stream", windows=WINDOWS)
        least = hr.min("stream", windows=WINDOWS)
        either = hr.sum("units", where="coalesce(reason, stream, label) in ('FR', 'payments')", windows=WINDOWS)

    return replace(OfStreams, name=name)
