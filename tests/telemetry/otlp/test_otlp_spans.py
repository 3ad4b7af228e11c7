"""Spans of traced events: the gate's and the scores' records in the log, under the producer's own span."""

from dataclasses import asdict, replace
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from headrace.kafka.record import ConsumerRecord
from headrace.models.inference.prediction import Prediction
from headrace.telemetry.otlp.spans import build_spans, parse_span_context, span_builders
from tests.telemetry.otlp_receiver import spans_in
from tests.telemetry.values.test_metrics_scraper import payments, the_app

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TRACED = f"00-{TRACE}-{PARENT}-01"
MAKERS = span_builders(the_app())
SCORE = Prediction(
    event_id="e1",
    score=0.5,
    decision=None,
    model="fraud",
    version="3",
    role="champion",
    source="stream",
    features={},
    known={},
    degraded=("late",),
    event_time_us=1,
    arrival_us=2_000,
    read_at_us=1,
    decided_at_us=9_000,
)


def record(topic: str, value: bytes = b"{}", trace: str = TRACED, **headers: str) -> ConsumerRecord:
    written = [(f"headrace.{name}", text.encode()) for name, text in headers.items()]
    return ConsumerRecord(topic, 1, 7, 5_000, b"card-of-somebody", value, [*written, ("traceparent", trace.encode())])


def spans(*records: ConsumerRecord, since_us: int = 0) -> list[Span]:
    found = [*build_spans(records, MAKERS, since_us)]
    return spans_in(orjson.dumps({"resourceSpans": [{"scopeSpans": [{"spans": found}]}]}))


def said(span: Span) -> dict[str, str]:
    return {one.key.removeprefix("headrace."): one.value.string_value for one in span.attributes}


def test_the_gate_has_a_span_from_arrival_to_the_fate_under_the_producers() -> None:
    (span,) = spans(record("payments.clean", offset="42", arrival="3000"))
    assert (span.trace_id.hex(), span.parent_span_id.hex(), span.name) == (TRACE, PARENT, "payments gate")
    assert (span.start_time_unix_nano, span.end_time_unix_nano) == (3_000_000, 5_000_000)
    assert said(span) == {"place": "payments-1@42", "fate": "clean"}
    assert span.status.code == 0
    assert any(span.span_id)


def test_a_dead_letter_is_an_error_told_by_the_code_of_its_reason() -> None:
    (span,) = spans(record("payments.dead", offset="42", arrival="3000", reason="failed-check: amount of 17 < 0"))
    assert said(span) == {"place": "payments-1@42", "fate": "dead", "reason": "failed-check"}
    assert span.status.code == Span().status.StatusCode.STATUS_CODE_ERROR


def test_a_score_has_a_span_from_arrival_to_the_decision() -> None:
    (span,) = spans(record("fraud.predictions", orjson.dumps(asdict(SCORE))))
    assert (span.name, span.start_time_unix_nano, span.end_time_unix_nano) == ("fraud score", 2_000_000, 9_000_000)
    assert said(span) == {"model": "fraud", "version": "3", "role": "champion", "source": "stream", "degraded": "late"}


def test_a_score_over_http_is_a_moment_for_no_log_knows_when_it_was_asked_for() -> None:
    asked = replace(SCORE, source="http", arrival_us=None, degraded=())
    (span,) = spans(record("fraud.predictions", orjson.dumps(asdict(asked))))
    assert span.start_time_unix_nano == span.end_time_unix_nano == 9_000_000


def test_the_same_record_has_the_same_span_and_another_has_another() -> None:
    one = record("payments.clean", offset="42", arrival="3000")
    first, again, other = spans(one, one, one._replace(offset=8))
    assert first.span_id == again.span_id != other.span_id


def test_what_nobody_records_or_is_older_or_is_not_ours_has_none() -> None:
    not_recorded = record("payments.clean", trace=TRACED[:-1] + "0", offset="42", arrival="3000")
    assert not spans(not_recorded, record("payments.clean"), record("fraud.predictions", b"<html>"))
    assert not spans(record("payments.clean", offset="42", arrival="3000"), since_us=5_001)
    assert not spans(record("payments.clean", offset="x", arrival="3000"))
    assert not spans(record("fraud.predictions", b"[]"), record("fraud.predictions", b'{"decided_at_us": null}'))


@pytest.mark.parametrize(
    "trace", [f"ff-{TRACE}-{PARENT}-01", f"00-{'0' * 32}-{PARENT}-01", f"00-{TRACE}-{'0' * 16}-01"]
)
def test_a_trace_that_w3c_calls_invalid_is_none(trace: str) -> None:
    assert parse_span_context(record("payments.clean", trace=trace)) is None


@given(st.text(max_size=60), st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3))
def test_nothing_that_a_producer_writes_breaks_off_the_others(trace: str, value: dict[str, Any]) -> None:
    hostile = record("fraud.predictions", orjson.dumps(value), trace=trace)
    assert len(spans(hostile, record("payments.clean", offset="42", arrival="3000"))) == 1


def test_nothing_of_an_events_key_or_values_is_in_a_span() -> None:
    value = orjson.dumps({**asdict(SCORE), "features": {"amount": "secret-value"}})
    told = f"{spans(record('fraud.predictions', value), record('payments.clean', offset='4', arrival='3'))}"
    assert "somebody" not in told
    assert "secret" not in told
    assert payments.name in told
