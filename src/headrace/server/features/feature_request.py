"""A request for features: keys, a time, and request values."""

import time
from typing import Any, NamedTuple

from headrace.server.features.entity_keys import parse_time_us, short_json
from headrace.server.http.responses import BadRequest, parse_json

BODY_FIELDS = {"keys", "at", "request"}
BODY_EXAMPLE = 'an object: {"keys": ["c1"]}'


class FeatureRequest(NamedTuple):
    """A parsed request; `at_us` is now where the request has no time."""

    keys: Any
    at_us: int
    request_values: dict[str, Any]


def parse_feature_request(body: bytes) -> FeatureRequest:
    """Parse a body."""
    content = parse_json(body, BODY_EXAMPLE)
    if type(content) is dict and len(content) == 1 and "keys" in content:
        return FeatureRequest(content["keys"], time.time_ns() // 1000, {})
    if not isinstance(content, dict):
        raise BadRequest(f"The body is {short_json(content)}. Write {BODY_EXAMPLE}.")
    if not content.keys() <= BODY_FIELDS:
        raise BadRequest(
            f"The body has a field {short_json(min(content.keys() - BODY_FIELDS))}. "
            'Write "keys", and if you need them "at" and "request".'
        )
    if not isinstance(content.get("request", {}), dict):
        raise BadRequest(f'"request" is {short_json(content["request"])}. Write an object: {{"amount": 90}}.')
    return FeatureRequest(content.get("keys"), _parse_at_us(content.get("at")), content.get("request", {}))


def _parse_at_us(value: Any) -> int:
    if value is None:
        return time.time_ns() // 1000
    at_us = parse_time_us(value)
    if at_us is None:
        raise BadRequest(
            f'"at" is {short_json(value)}. Write ISO 8601, such as "2026-01-01T00:05:00Z", or epoch milliseconds.'
        )
    return at_us
