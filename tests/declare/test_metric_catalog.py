"""The catalogue follows Prometheus' rules for names, and is the only source of every displayed metric."""

import re
from importlib.resources import files
from pathlib import Path

import pytest

from headrace.declare.metric_catalog import METRIC_CATALOG, METRIC_GROUPS
from headrace.declare.metric_family import BASE_UNITS, TOTAL_SUFFIX, ErrorBudget, GaugeLimit, MetricFamily, MetricType
from headrace.telemetry.exporters.dashboards_and_rules import metric_catalog_markdown
from tests.docs_tables import IS_WRITTEN

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"
# What a label may be: the name of a declared thing, or a word of a list that the code has.
DECLARED = {"stream", "view", "model", "query", "table", "column", "path", "topic", "partition", "version", "part"}
WORDS = {
    "rank",
    "kind",
    "fate",
    "reason",
    "lane",
    "outcome",
    "status",
    "role",
    "state",
    "test",
    "by",
    "sink",
    "outbox",
    "signal",
}
NOT_BASE = ("_ms", "_millis", "_us", "_minutes", "_hours", "_kb", "_mb", "_kilobytes", "_percent")


@pytest.fixture(params=METRIC_CATALOG.values(), ids=list(METRIC_CATALOG))
def family(request: pytest.FixtureRequest) -> MetricFamily:
    assert isinstance(request.param, MetricFamily)
    return request.param


def test_a_name_is_one_prometheus_recommends(family: MetricFamily) -> None:
    bare = family.name.removesuffix(TOTAL_SUFFIX)
    assert re.fullmatch(r"headrace(_[a-z][a-z0-9]*)+", family.name)
    assert family.name.endswith(TOTAL_SUFFIX) == (family.metric_type is MetricType.COUNTER)
    assert not bare.endswith(("_count", "_sum", "_bucket", "_info", "_created", *NOT_BASE))
    for sort in ("gauge", "counter", "histogram"):
        assert sort not in family.name


def test_a_unit_is_told_and_is_in_the_name_if_it_is_a_base_unit(family: MetricFamily) -> None:
    assert family.unit
    for unit in BASE_UNITS:
        assert (family.unit == unit) == family.name.removesuffix(TOTAL_SUFFIX).endswith(f"_{unit}")


def test_a_sentence_says_what_it_is(family: MetricFamily) -> None:
    assert len(family.help) > 10
    assert not family.help.endswith(".")
    assert family.help[0].isupper() or family.help[0].isdigit()


def test_labels_are_bounded_and_not_in_the_name(family: MetricFamily) -> None:
    assert set(family.labels) <= DECLARED | WORDS
    assert len(set(family.labels)) == len(family.labels)
    assert "le" not in family.labels


def test_delays_have_bounds_that_grow_and_nothing_else_has(family: MetricFamily) -> None:
    assert bool(family.bucket_bounds) == (family.metric_type is MetricType.HISTOGRAM)
    assert list(family.bucket_bounds) == sorted(set(family.bucket_bounds))


def test_a_level_is_held_to_a_limit_and_a_share_is_of_something_that_is_counted() -> None:
    for family in METRIC_CATALOG.values():
        assert not (isinstance(family.objective, ErrorBudget) and family.metric_type is MetricType.GAUGE), family.name
        assert not (isinstance(family.objective, GaugeLimit) and family.metric_type is MetricType.HISTOGRAM), (
            family.name
        )
    with pytest.raises(TypeError, match="headrace_lag has no limit"):
        _ = METRIC_CATALOG["headrace_lag"].limit
    with pytest.raises(TypeError, match="headrace_lag has no error budget"):
        _ = METRIC_CATALOG["headrace_lag"].allowed_share


def test_no_name_is_written_twice() -> None:
    assert len(METRIC_CATALOG) == sum(len(room) for room in METRIC_GROUPS.values())


def test_the_table_in_the_docs_is_the_catalogue() -> None:
    before, heading, tables = PAGE.read_text().partition("## Metric reference\n")
    if IS_WRITTEN:
        PAGE.write_text("\n".join([f"{before}{heading.rstrip()}", *metric_catalog_markdown(), ""]))
    else:
        assert tables.splitlines() == [*metric_catalog_markdown()], f"HEADRACE_GOLDEN=write rewrites {PAGE.name}"


def test_the_page_asks_for_nothing_that_is_not_in_it() -> None:
    scripts = [file for file in (files("headrace.server.dashboard") / "static").iterdir() if file.name.endswith(".js")]
    asked = {name for script in scripts for name in re.findall(r"headrace_[a-z_]+", script.read_text())}
    assert asked
    assert asked <= METRIC_CATALOG.keys()
