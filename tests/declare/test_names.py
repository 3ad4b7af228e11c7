"""Names that declarations get in other systems, and the errors for those that collide."""

from types import ModuleType
from typing import Any

import duckdb
import pytest

import headrace as hr
from headrace.declare import names
from headrace.declare.app import App, build_app
from headrace.declare.name_collisions import list_declarations, list_written_topics
from headrace.lake.ingestion.table_mapping import table_mappings

COLUMNS = {"schema": "id string, k string, v double, ok boolean, at timestamp", "id": "id", "key": "k", "time": "at"}


def stream(name: str, **other: Any) -> hr.Stream:
    return hr.Stream(name, **{**COLUMNS, **other})


def view(name: str, on: hr.Stream, **features: Any) -> Any:
    return hr.features(on, by="k")(type(name, (), features or {"n": hr.count(windows="1h")}))


def app(**declared: object) -> App:
    module = ModuleType("shop")
    vars(module).update(declared)
    return build_app(module)


def refused(**declared: object) -> str:
    with pytest.raises(hr.DeclarationError) as refusal:
        app(**declared)
    return str(refusal.value)


def harsh(on: hr.Stream, **settings: Any) -> Any:
    return hr.pattern("harsh", by="k", within="10m", **settings).step("a", where="v > 1").on(on)


def model(name: str, on: hr.Stream, features: Any, **other: Any) -> hr.Model:
    return hr.Model(name, on=on, features=[features], train=lambda frame: frame, **other)


def test_a_pattern_whose_late_events_are_kept_has_tables_of_its_own_for_them() -> None:
    tables = [landing.table for landing in table_mappings(app(x=harsh(stream("x"))))]
    assert len(tables) == len({table.lower() for table in tables})
    assert {"silver/harsh", "silver/harsh_late", "silver/harsh-late", "silver/harsh-late_dead"} <= set(tables)


def test_tables_of_windows_and_joins_are_called_as_they_were() -> None:
    visits = hr.windowed("visits", stream("x"), by="k", over=hr.Tumbling("1m"), n=hr.count())
    tables = {landing.table for landing in table_mappings(app(visits=visits))}
    assert {"silver/visits", "silver/visits_late", "silver/visits-late", "silver/visits-closed"} <= tables


def test_the_topics_of_a_patterns_late_events_are_called_as_they_were() -> None:
    assert harsh(stream("x")).late.clean == "harsh_late.clean"


def test_two_streams_that_meet_in_a_topic_or_a_table_are_refused_with_both_lines() -> None:
    one, other = stream("meter"), stream("meter_dead")
    said = refused(one=one, other=other)
    assert "stream 'meter' (test_names.py:" in said
    assert "stream 'meter_dead' (test_names.py:" in said
    assert "'meter_dead', which Kafka takes for 'meter.dead'" in said
    assert "Rename one, such as 'meter_dead' to 'meter_dead_events'." in said


@pytest.mark.parametrize(
    ("one", "other", "shared"),
    [
        ("payments", "Payments", "which a reader takes for 'payments'"),
        ("payments-eu", "payments_eu", "which a reader takes for 'payments-eu'"),
        ("payments.eu", "payments_eu", "which a reader takes for 'payments.eu'"),
        ("meter", "meter_late", "which Kafka takes for 'meter.late'"),
        ("meter", "meter_clean", "which Kafka takes for 'meter.clean'"),
    ],
)
def test_streams_that_differ_in_case_or_punctuation_alone_are_refused(one: str, other: str, shared: str) -> None:
    assert shared in refused(one=stream(one), other=stream(other))


def test_views_that_differ_in_case_alone_are_refused_with_both_lines() -> None:
    on = stream("x")
    first, second = view("V", on), view("v", on, m=hr.count(windows="2h"))
    said = refused(first=first, second=second)
    assert f"view 'V' ({first.location}) and view 'v' ({second.location}) would share the live table 'v'" in said
    assert "which SQL takes for 'V'" in said


def test_views_of_one_name_in_two_modules_are_refused_with_both_files() -> None:
    on, code = stream("x"), "V = hr.features(on, by='k')(type('V', (), {'n': hr.count(windows=hours)}))"
    found = []
    for folder, hours in (("a", "1h"), ("b", "2h")):
        space: dict[str, Any] = {"hr": hr, "on": on, "hours": hours, "__name__": f"{folder}.views"}
        exec(compile(code, f"/app/{folder}/views.py", "exec"), space)
        found.append(space["V"])
    said = refused(one=found[0], other=found[1])
    assert "two declarations are named 'V': /app/a/views.py:1 and /app/b/views.py:1" in said


def test_a_view_that_two_modules_have_alike_is_one_view() -> None:
    on = stream("x")
    assert len(app(one=view("V", on), other=view("V", on)).views) == 1


def test_a_module_that_is_loaded_twice_is_told_apart_from_a_name_used_twice() -> None:
    def derived() -> Any:
        return hr.derive(payments, name="abroad")(lambda frame: frame)

    payments = stream("payments")
    assert "which is loaded twice" in refused(one=derived(), two=derived())


def test_outputs_of_a_view_that_differ_in_case_alone_are_refused() -> None:
    total = hr.sum("v", windows="1h")
    with pytest.raises(hr.DeclarationError, match=r"py:\d+: V: the outputs 'rate' and 'Rate' differ in case"):
        view("V", stream("x"), total=total, rate=total["1h"] + 1, Rate=total["1h"] + 2)
    with pytest.raises(hr.DeclarationError, match="'total_1h' and 'Total_1h' differ in case alone"):
        view("V", stream("x"), total=total, Total=hr.sum("v", windows="1h"))
    with pytest.raises(hr.DeclarationError, match="'k' and 'K' differ in case alone"):
        view("V", stream("x"), total=total, K=total["1h"] + 1)
    with pytest.raises(hr.DeclarationError, match="'k' has the name of a column in by="):
        view("V", stream("x"), total=total, k=total["1h"] + 1)
    with pytest.raises(hr.DeclarationError, match="'hr_event_time' has the name of one that Headrace adds"):
        view("V", stream("x"), total=total, hr_event_time=total["1h"] + 1)


@pytest.mark.parametrize("column", ["hr_day", "HR_Offset", "hr_event_time", "hr_version"])
def test_columns_that_headrace_adds_are_refused_in_a_stream(column: str) -> None:
    with pytest.raises(hr.DeclarationError, match=f"Stream 'x': the column '{column}' .* Rename it"):
        stream("x", schema=f"id string, k string, at timestamp, {column} int")


def test_columns_of_a_stream_that_differ_in_case_alone_are_refused() -> None:
    with pytest.raises(hr.DeclarationError, match="Stream 'x': the columns 'v' and 'V' differ in case alone"):
        stream("x", schema="id string, k string, v double, V int, at timestamp")


def test_a_model_and_a_pattern_that_share_a_clock_are_refused() -> None:
    x, labelled = stream("x"), stream("labelled")
    fraud = model("harsh", x, view("V", x), labels=hr.Labels(labelled, value="ok", within="1h"))
    said = refused(x=harsh(x), fraud=fraud)
    assert "derived stream 'harsh'" in said
    assert "model 'harsh'" in said
    assert "would share the topic 'harsh.clock'" in said


def test_a_model_and_a_stream_named_as_its_checkpoint_is_are_refused() -> None:
    x = stream("x")
    assert "checkpoint 'fraud.outcomes'" in refused(a=stream("fraud.outcomes"), fraud=model("fraud", x, view("V", x)))


def test_models_that_differ_in_case_or_punctuation_alone_are_refused() -> None:
    x = stream("x")
    kept = view("V", x)
    assert "which a reader takes for 'fraud'" in refused(a=model("fraud", x, kept), b=model("Fraud", x, kept))
    assert "which a reader takes for 'a-b'" in refused(a=model("a-b", x, kept), b=model("a_b", x, kept))


def test_a_model_whose_views_have_outputs_that_differ_in_case_alone_is_refused() -> None:
    x = stream("x")
    upper = view("Upper", x, N=hr.count(windows="1h"))
    with pytest.raises(hr.DeclarationError, match="Model 'm': the columns 'n_1h' and 'N_1h' differ in case alone"):
        hr.Model("m", on=x, features=[view("Lower", x), upper], train=lambda frame: frame)


def test_two_models_may_read_views_with_outputs_of_one_name() -> None:
    x = stream("x")
    one, other = view("One", x), view("Other", x, n=hr.count(windows="1h", where="v > 1"))
    whole = app(first=model("first", x, one), second=model("second", x, other))
    assert [each.vector.names for each in whole.models] == [("n_1h",), ("n_1h",)]


def test_a_view_and_a_model_may_differ_in_case_alone() -> None:
    x = stream("x")
    assert app(fraud=model("fraud", x, view("Fraud", x))).views[0].name == "Fraud"


@pytest.mark.parametrize("name", ["headrace.progress", "headrace_alerts", "Headrace.x", "headrace"])
def test_names_of_headraces_own_topics_are_refused(name: str) -> None:
    said = refused(x=stream(name))
    assert said.startswith("test_names.py:")
    assert "names that begin with headrace. are Headrace's own" in said


@pytest.mark.parametrize("name", ["x.lessons", "x.CLEAN", "x.tiles"])
def test_endings_of_headraces_own_topics_are_refused_in_any_case(name: str) -> None:
    with pytest.raises(hr.DeclarationError, match="are Headrace's own topics"):
        stream(name)


def test_words_of_sql_are_refused_where_the_app_alone_chooses_the_name() -> None:
    x = stream("x")
    assert "view 'Order' has the name of an SQL keyword" in refused(x=view("Order", x))
    assert "such as 'group_events'" in refused(x=hr.derive(x, name="group")(lambda frame: frame))
    assert app(x=stream("order")).streams[0].name == "order", "a topic may be given"


def test_the_words_of_sql_are_those_that_duckdb_reserves() -> None:
    found = duckdb.sql("SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category = 'reserved'").fetchall()
    assert {name for (name,) in found} == names.SQL_RESERVED_WORDS


def test_a_sink_into_a_topic_of_headraces_own_is_refused() -> None:
    x = stream("x")
    said = refused(out=hr.Sink("out", of=x, to=hr.Kafka("x.clean")))
    assert "sink 'out' would write to the topic 'x.clean', which belongs to stream 'x'" in said
    assert app(out=hr.Sink("out", of=x, to=hr.Kafka("y")), y=stream("y")).sinks, "into a raw topic it may"


@pytest.mark.parametrize("kind", [hr.Query, hr.Alert])
def test_alerts_and_queries_that_differ_in_case_alone_are_refused(kind: Any) -> None:
    def declared(name: str) -> Any:
        if kind is hr.Query:
            return hr.Query(name, "select 1")
        return hr.Alert(name, on=hr.metric("headrace_lag", stream="x"), above=1)

    said = refused(x=stream("x"), one=declared("by country"), other=declared("By country"))
    assert said.count("test_names.py:") == 2


def test_every_topic_that_an_app_writes_is_known_with_who_declares_it() -> None:
    x = stream("x", late=hr.Late("1m", then="drop"))
    found = list_written_topics(app(x=x, v=view("V", x), m=harsh(x, late=hr.Late("1m"))))
    assert {"x.clean", "x.dropped", "V.tiles", "V.served", "harsh", "harsh_late.clean", "harsh.clock"} <= found.keys()
    assert "x" not in found
    assert found["harsh_late.clean"] == "derived stream 'harsh'"


def test_every_topic_of_a_landing_is_one_that_the_names_know() -> None:
    x = stream("x")
    whole = app(x=x, v=view("V", x), m=harsh(x), fraud=model("fraud", x, view("V", x)))
    known = {resource for one in list_declarations(whole) for resource in one.resources}
    topics = {resource.name for resource in known if resource.kind == "topic"}
    tables = {resource.name for resource in known if resource.kind == "table of the lake"}
    for landing in table_mappings(whole):
        assert landing.topic in topics
        assert landing.table in tables
