"""What a request for features asks for: keys, a time, and the values that come with it."""

import time
from typing import Any, NamedTuple

from headrace.serve.answers import BadRequest, json_of
from headrace.serve.keys import shown, time_us

FIELDS = {"keys", "at", "request"}
AN_OBJECT = 'an object: {"keys": ["c1"]}'


class Asked(NamedTuple):
    """What a request asks for; `at_us` is now where it names no time."""

    keys: Any
    at_us: int
    request: dict[str, Any]


def read_request(body: bytes) -> Asked:
    """The request a body holds."""
    asked = json_of(body, AN_OBJECT)
    if type(asked) is dict and len(asked) == 1 and "keys" in asked:
        return Asked(asked["keys"], time.time_ns() // 1000, {})
    if not isinstance(asked, dict):
        raise BadRequest(f"The body is {shown(asked)}. Write {AN_OBJECT}.")
    if not asked.keys() <= FIELDS:
        raise BadRequest(
            f"The body has a field {shown(min(asked.keys() - FIELDS))}. "
            'Write "keys", and if you need them "at" and "request".'
        )
    if not isinstance(asked.get("request", {}), dict):
        raise BadRequest(f'"request" is {shown(asked["request"])}. Write an object: {{"amount": 90}}.')
    return Asked(asked.get("keys"), _at_us(asked.get("at")), asked.get("request", {}))


def _at_us(written: Any) -> int:
    if written is None:
        return time.time_ns() // 1000
    at_us = time_us(written)
    if at_us is None:
        raise BadRequest(
            f'"at" is {shown(written)}. Write ISO 8601, such as "2026-01-01T00:05:00Z", or epoch milliseconds.'
        )
    return at_us
