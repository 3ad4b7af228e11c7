"""POST /features/VIEW: the values of some entities' features, now or at a time."""

import time
from math import isfinite, isnan
from typing import Any, NamedTuple

import orjson

from headrace.declare.schema import Kind
from headrace.declare.views import Feature, View
from headrace.serve.answers import Answer, BadRequest, encode_json, json_answer
from headrace.serve.keys import KeyReader, shown, time_us
from headrace.serve.online import Online
from headrace.store.reads import Read, TooLongAgo
from headrace.tiles.finish import moment
from headrace.tiles.tile import Entity

KNOWN_AT_MOST = 100_000
FIELDS = {"keys", "at", "request"}
FLOATING = {"sum", "mean", "stddev", "min", "max", "first", "last"}


class Asked(NamedTuple):
    """What a request asks for; `at_us` is now where it names no time."""

    keys: Any
    at_us: int


class Features:
    """Answers for one view."""

    def __init__(self, view: View, online: Online) -> None:
        self._view, self._online = view, online
        self._names = view.names
        self._keys = KeyReader(view)
        self._known: dict[Entity, tuple[Read, orjson.Fragment]] = {}
        self._floats = [index for index, feature in enumerate(view.features) if _may_be_float(feature)]

    async def __call__(self, body: bytes) -> Answer:
        """The answer to one request."""
        asked = read_request(body)
        entities = self._keys.entities(asked.keys)
        try:
            reads = await self._online.read(self._view.name, entities, asked.at_us)
        except TooLongAgo as problem:
            raise BadRequest(str(problem)) from problem
        rows = [self._row(entity, read, asked.at_us) for entity, read in zip(entities, reads, strict=True)]
        return json_answer({"as_of": moment(asked.at_us), "rows": rows})

    def _row(self, entity: Entity, read: Read, at_us: int) -> dict[str, Any]:
        event_time_us = read.event_time_us
        row = self._keys.named(entity)
        row["values"] = self._values(entity, read)
        row["event_time"] = None if event_time_us is None else moment(event_time_us)
        row["age_ms"] = None if event_time_us is None else (at_us - event_time_us) // 1000
        return row

    def _values(self, entity: Entity, read: Read) -> orjson.Fragment:
        """The values in JSON; a store that gives the same read again gets the same bytes."""
        known = self._known.get(entity)
        if known is not None and known[0] is read:
            return known[1]
        if len(self._known) >= KNOWN_AT_MOST:
            self._known.clear()
        values = [*read.values]
        for index in self._floats:
            value = values[index]
            if value is not None and not isfinite(value):
                values[index] = _not_finite(value)
        written = orjson.Fragment(encode_json(dict(zip(self._names, values, strict=True))))
        self._known[entity] = read, written
        return written


def read_request(body: bytes) -> Asked:
    """The request a body holds."""
    asked = _parsed(body)
    if not isinstance(asked, dict):
        raise BadRequest(f'The body is {shown(asked)}. Write an object: {{"keys": ["c1"]}}.')
    if not asked.keys() <= FIELDS:
        raise BadRequest(
            f"The body has a field {shown(min(asked.keys() - FIELDS))}. "
            'Write "keys", and if you need them "at" and "request".'
        )
    if not isinstance(asked.get("request", {}), dict):
        raise BadRequest(f'"request" is {shown(asked["request"])}. Write an object: {{"amount": 90}}.')
    return Asked(asked.get("keys"), _at_us(asked.get("at")))


def _parsed(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as problem:
        raise BadRequest(f'The body is not JSON: {problem}. Write an object: {{"keys": ["c1"]}}.') from problem


def _at_us(written: Any) -> int:
    if written is None:
        return time.time_ns() // 1000
    at_us = time_us(written)
    if at_us is None:
        raise BadRequest(
            f'"at" is {shown(written)}. Write ISO 8601, such as "2026-01-01T00:05:00Z", or epoch milliseconds.'
        )
    return at_us


def _may_be_float(feature: Feature) -> bool:
    aggregate = feature.aggregate
    return aggregate.function in FLOATING and aggregate.kind is Kind.DOUBLE


def _not_finite(value: float) -> str:
    return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"
