"""hr.testing.script: its checks of an operation, and the message of a failed check."""

import json
from datetime import datetime, timedelta
from typing import Any

import pytest

import headrace as hr
from headrace.operators.windows.window_aggregates import WindowAggregator
from headrace.testing import Script, UnfitScript
from headrace.tiles.events.record_classification import RawRecord, classify_records
from headrace.tiles.finish import EPOCH


def visits(**settings: Any) -> Any:
    clicks = hr.Stream(
        "clicks",
        schema="click string, user string, page string, amount double, at timestamp",
        id="click",
        key="user",
        time="at",
        late=hr.Late("1h"),
        check="amount >= 0",
    )
    given = {"over": hr.Session("30m"), "late": hr.Late("2m"), "clicks": hr.count(), "spend": hr.sum("amount")}
    return hr.windowed("visits", clicks, by="user", **given | settings)


def two_clicks(**settings: Any) -> Script:
    script = hr.testing.script(visits(**settings))
    return script.at("12:00").send(user="u1", amount=5.0).at("12:10").send(user="u1", amount=2.5)


def test_a_window_is_told_once_the_watermark_is_past_it() -> None:
    script = two_clicks().watermark("12:42").expect(out=[], closed=[])
    script.watermark("12:42:01").expect(
        out=[{"user": "u1", "window_start": "12:00", "window_end": "12:40", "clicks": 2, "spend": 7.5, "revision": 0}],
        closed=[{"events": 2, "late_rows": 0}],
        late=[],
    )


def test_a_late_event_goes_to_the_late_output() -> None:
    script = two_clicks().at("12:20").late(by="3m").send(user="u1").watermark("13:00")
    script.expect(out=[{"clicks": 2}], late=[{"id": "e3", "lateness_us": 180_000_000, "at": "12:20"}])


def test_late_is_said_of_one_event_alone() -> None:
    script = two_clicks().at("12:15").late(by="3m").send(user="u1").send(user="u2").watermark("13:00")
    script.expect(out=[{"user": "u1"}, {"user": "u2"}], late=[{"user": "u1"}])


def test_what_the_gate_holds_back_does_not_arrive() -> None:
    two_clicks().at("12:20").late(by="61m").send(user="u1").watermark("14:00").expect(out=[{"clicks": 2}], late=[])


def test_what_is_killed_is_done_again_and_told_once() -> None:
    script = two_clicks(emit="update").kill().watermark("12:20").kill().at("12:30").send(user="u1").kill()
    script.watermark("13:10").expect(closed=[{"events": 3, "window_end": "13:00"}])
    assert [row["clicks"] for row in script.rows() if row["is_final"]] == [3]


def test_a_kill_shows_what_is_not_the_same_when_it_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    made = iter(range(100))
    monkeypatch.setattr(WindowAggregator, "compute_results", lambda *_: {"clicks": next(made), "spend": 0.0})
    with pytest.raises(AssertionError, match="emitted twice with different values"):
        two_clicks(emit="update").kill().watermark("12:20").expect(out=[])


def test_a_kill_shows_what_was_not_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WindowAggregator, "decode_state", lambda tallies, _written: tallies.create_state())
    with pytest.raises(AssertionError, match="- expected, missing"):
        two_clicks().watermark("12:20").watermark("13:00").expect(out=[{"clicks": 2}])


def test_what_is_not_so_is_shown_row_by_row() -> None:
    with pytest.raises(AssertionError) as shown:
        two_clicks().watermark("13:00").expect(out=[{"user": "u1", "clicks": 3}], closed=[])
    told = str(shown.value).splitlines()
    assert told[0] == "Script of visits: 2 events, the watermark at 13:00:00"
    assert told[1:3] == ["out: 1 rows, where 1 are expected", "  - expected, missing:   user='u1', clicks=3"]
    assert told[3].startswith('  + actual, unexpected:  id=\'["u1"]@')
    assert "window_start=12:00:00, window_end=12:40:00, kind='result'" in told[3]
    assert told[4] == "closed: 1 rows, where 0 are expected"


def test_rows_that_name_fewer_columns_take_what_is_left() -> None:
    script = two_clicks().send(user="u2", amount=1.0).watermark("13:00")
    script.expect(out=[{"revision": 0}, {"revision": 0, "user": "u1"}])


def test_rows_are_there_to_look_at() -> None:
    (row,) = two_clicks().watermark("13:00").rows()
    assert (row["clicks"], row["window_end"].isoformat()) == (2, "2026-01-01T12:40:00+00:00")


def test_one_stream_of_an_operation_is_enough() -> None:
    hr.testing.script(visits().closed).at("12:00").send(user="u1").watermark("13:00").expect(closed=[{"events": 1}])


def test_an_event_without_its_key_is_nobodys() -> None:
    pages = visits()
    by_page = hr.windowed("pages", pages.out.made_by.inputs[0], by="page", over=hr.Tumbling("1m"), clicks=hr.count())
    script = hr.testing.script(by_page).at("12:00").send(user="u1").send(user="u1", page="p").watermark("15:00")
    script.expect(out=[{"page": "p", "clicks": 1}])


def refused(act: Any) -> str:
    with pytest.raises((UnfitScript, hr.DeclarationError)) as why:
        act()
    return str(why.value)


def test_what_cannot_happen_is_refused_with_what_to_write() -> None:
    script = two_clicks().watermark("12:20")
    assert "Send it before, or with .late(by=…)" in refused(lambda: script.at("12:19").send(user="u1"))
    assert "never goes back" in refused(lambda: script.watermark("12:19"))
    assert "dead letter: failed-check" in refused(lambda: script.at("12:30").send(user="u1", amount=-1.0))
    assert "missing-key" in refused(lambda: script.send(page="p"))
    assert "'noon' is not a time" in refused(lambda: script.at("noon"))
    assert "Send to clicks" in refused(lambda: script.send("click", user="u1"))
    assert "It has out, late, closed" in refused(lambda: script.expect(output=[]))
    assert "there is no column 'click_count'" in refused(
        lambda: script.watermark("13:00").expect(out=[{"click_count": 1}])
    )
    assert "not the result of one operation" in refused(lambda: hr.testing.script(visits().out.made_by.inputs[0]))


def record(row: dict[str, Any]) -> RawRecord:
    """A row as it is written to its raw topic, at the time it was known."""
    return RawRecord(
        json.dumps(row, default=datetime.isoformat).encode(), (row["known_at"] - EPOCH) // timedelta(microseconds=1)
    )


UPDATE = hr.Late("2m", then="update", until="40m")


@pytest.mark.parametrize(
    "settings",
    [{}, {"emit": "update"}, {"every": "10m"}, {"over": hr.Tumbling("1h")}, {"late": UPDATE},
     {"late": UPDATE, "emit": "update"}, {"late": UPDATE, "every": "10m"},
     {"late": UPDATE, "over": hr.Session("30m", longest="45m")}, {"over": hr.Global(), "emit": "update"}],
)  # fmt: skip
def test_the_gate_of_each_output_takes_every_row(settings: dict[str, Any]) -> None:
    script = two_clicks(**settings).at("12:20").late(by="35m").send(user="u1").at("12:35").send(user="u1")
    script.at("12:59").late(by="39m").send(user="u1").watermark("15:00")
    rows = {stream: script.rows(stream.output) for stream in visits(**settings)}
    assert sum(map(len, rows.values())) > 2
    for stream, told in rows.items():
        assert all(verdict.fate == "clean" for verdict in classify_records(stream, list(map(record, told)))), (
            stream.name
        )


def test_a_join_is_sent_events_of_both_its_streams() -> None:
    schema = "id string, user string, at timestamp"
    orders = hr.Stream("orders", schema=schema, id="id", key="user", time="at", late=hr.Late("1m"))
    payments = hr.Stream("payments", schema=schema, id="id", key="user", time="at", late=hr.Late("1m"))
    paid = hr.join("paid", orders, payments, on="user", within=("0s", "10m"), prefix="payment_")
    script = hr.testing.script(paid).at("12:00").send(orders, user="u1").at("12:05").send("payments", user="u1")
    script.kill().at("12:30").send(payments, user="u1").watermark("13:00")
    assert len(script.rows()) == 1
    assert "Send to orders or payments" in refused(lambda: script.at("13:00").send(user="u1"))


def test_a_pattern_is_scripted_as_windows_are() -> None:
    logins = hr.Stream(
        "logins", schema="id string, user string, ok boolean, at timestamp", id="id", key="user", time="at"
    )
    guessed = (
        hr.pattern("two failed logins, then a success", by="user", within="10m", name="guessed", late=hr.Late("10s"))
        .step("fail", where="not ok", times=2)
        .then("success", where="ok")
        .on(logins)
    )
    script = hr.testing.script(guessed).at("12:00").send(user="u1", ok=False).at("12:01").send(user="u1", ok=False)
    script.kill().at("12:02").send(user="u1", ok=True).watermark("12:20")
    assert len(script.rows()) == 1
