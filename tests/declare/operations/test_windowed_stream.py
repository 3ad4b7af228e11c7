"""hr.windowed: its declaration, and its errors with the line, the value and the remedy."""

from typing import Any

import pytest

import headrace as hr
from headrace.declare.operations.derived_stream import StreamOperation
from headrace.errors import DeclarationError


def clicks(**settings: Any) -> hr.Stream:
    schema = "click string, user string, page string, amount double, n int, gap double, at timestamp"
    given = {"schema": schema, "id": "click", "key": "user", "time": "at", "late": hr.Late("1h")}
    return hr.Stream("clicks", **given | settings)


def windowed(**settings: Any) -> Any:
    given = {"by": "user", "over": hr.Session("30m"), "clicks": hr.count()}
    return hr.windowed("visits", settings.pop("stream", None) or clicks(), **given | settings)


def columns(stream: hr.Stream) -> str:
    return ", ".join(f"{column.name} {column.type}" for column in stream.schema)


def test_a_windowing_is_three_streams_of_one_operation() -> None:
    made = windowed(by=["user", "page"], spend=hr.sum("amount"), total=hr.sum("n"), least=hr.min("n"), idle="1s")
    assert [stream.name for stream in made] == ["visits", "visits-late", "visits-closed"]
    assert made.out.made_by == made.late.made_by == made.closed.made_by
    assert isinstance(made.out.made_by, StreamOperation)
    assert (made.out.made_by.by, made.out.made_by.idle_us) == ((("user", "page"),), 1_000_000)
    assert made.out.made_by.location.file == "test_windowed_stream.py"
    assert columns(made.out) == (
        "id string, user string, page string, window_start timestamp, window_end timestamp, kind string, revision int, "
        "is_final boolean, clicks bigint, spend double, total bigint, least int, at timestamp, known_at timestamp"
    )
    assert columns(made.late) == (
        "id string, click string, user string, page string, amount double, n int, gap double, at timestamp, "
        "lateness_us bigint, known_at timestamp"
    )
    assert columns(made.closed) == (
        "id string, user string, page string, window_start timestamp, window_end timestamp, events bigint, "
        "late_rows bigint, revisions int, at timestamp, known_at timestamp"
    )


def test_its_lateness_is_the_streams_own_where_nothing_is_said() -> None:
    assert windowed().out.made_by.spec.late == hr.Late("1h")


def test_results_may_be_windowed_again() -> None:
    made = hr.windowed("hours", windowed().out, by="user", over=hr.Tumbling("1h"), visits=hr.count(where="is_final"))
    assert "known_at" in made.late.schema


def refused(**settings: Any) -> str:
    with pytest.raises(DeclarationError) as why:
        windowed(**settings)
    assert str(why.value).startswith("test_windowed_stream.py:")
    return str(why.value)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"by": []}, 'by=[]. Write one column, or several different ones: by="user"'),
        ({"by": ["user", "user"]}, "Write one column"),
        ({"by": "usr"}, "by: there is no column 'usr'"),
        ({"by": "amount"}, "by='amount' is a double. Group by a string"),
        ({"by": "at"}, "by='at' has the name of a column of the results. Rename that column"),
        ({"over": "30m"}, "over='30m' is no shape of windows. Write hr.Tumbling"),
        ({"over": hr.Session(gap_column="page", longest="1d")}, "gap_column='page' is string. Give the gap"),
        ({"over": hr.Session(gap_column="pause", longest="1d")}, "there is no column 'pause'"),
        ({"over": hr.Global()}, 'never closes, so nothing would be emitted. Write emit="update" or every="10s"'),
        ({"emit": "always"}, "emit='always'. Write \"close\" or \"update\", or every=\"10s\""),
        ({"emit": "update", "every": "10s"}, "Leave one of them out"),
        ({"every": "often"}, "every: 'often' is not a duration"),
        ({"late": hr.count()}, "is not a policy. Write late=hr.Late"),
        ({"late": hr.Late("2h")}, "the gate of 'clicks' lets nothing pass that is later than 1h. Write a shorter one"),
        ({"late": hr.Late("2m", then="update", until="2h")}, "late= goes up to 2h"),
        ({"kind": hr.count()}, "kind= has the name of another column of it. Rename it"),
        ({"user": hr.count()}, "user= has the name of another column of it"),
        ({"n": 5}, "n=5 is no aggregate. Write hr.count()"),
        ({"n": hr.count(windows="1h")}, "its windows are those of over=. Leave windows= and hop= out"),
        ({"n": hr.top("page", 3)}, "n: hr.top cannot be a column: it is a list"),
        ({"n": hr.count(by="page")}, 'n: hr.count cannot be a column: it is a map. Write one hr.count(where="page'),
        ({"n": hr.ewm("amount", halflife="1h")}, 'n: hr.ewm cannot be a column: a decaying mean has no end'),
        ({"n": hr.sum("page")}, "n: sum of 'page', which is string"),
        ({"n": hr.sum("amout")}, "n: there is no column 'amout'"),
        ({"n": hr.count(where="amout > 1")}, "amout"),
        ({"idle": "soon"}, "idle: 'soon' is not a duration"),
    ],
)  # fmt: skip
def test_what_cannot_work_is_refused(settings: dict[str, Any], said: str) -> None:
    assert said in refused(**settings)


def test_a_windowing_without_columns_is_refused() -> None:
    with pytest.raises(DeclarationError, match=r"no columns to emit\. Write a column, such as clicks=hr\.count\(\)"):
        hr.windowed("visits", clicks(), by="user", over=hr.Session("30m"))


def test_names_of_topics_and_columns_that_are_taken_are_refused() -> None:
    with pytest.raises(DeclarationError, match=r"test_windowed_stream.py:\d+: Stream 'visits.late': names ending in"):
        hr.windowed("visits.late", clicks(), by="user", over=hr.Tumbling("1m"), n=hr.count())
    other = clicks(schema="id bigint, click string, user string, at timestamp")
    with pytest.raises(DeclarationError, match="has a column 'id' of its own"):
        hr.windowed("visits", other, by="user", over=hr.Tumbling("1m"), n=hr.count())


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        (lambda: hr.Sliding("1m", every="2m"), "events between two windows would count in none. Write a shorter every"),
        (lambda: hr.Sliding("1d", every="1s"), "in 86,400 windows of '1d' every '1s'. Write a longer every"),
        (lambda: hr.Tumbling("a while"), "Tumbling: size: 'a while' is not a duration"),
        (hr.Session, "Write one of them: hr.Session"),
        (lambda: hr.Session("30m", gap_column="gap"), "Write one of them"),
        (lambda: hr.Session("30m", longest="20m"), "longest='20m' is shorter than the gap '30m'. Write a longer one"),
        (lambda: hr.Session(gap_column="gap"), 'could hold a session open for years. Write longest="1d"'),
    ],
)
def test_a_shape_that_cannot_work_is_refused(shape: Any, said: str) -> None:
    with pytest.raises(DeclarationError) as why:
        shape()
    assert said in str(why.value)


def test_a_view_still_wants_its_windows() -> None:
    for declared in (hr.count(), hr.max("amount"), hr.top("page", 3)):
        with pytest.raises(DeclarationError, match="Write one or several durations, such as windows="):
            hr.features(clicks(), by="user")(type("Clicks", (), {"some": declared}))
