import re
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from examples.fraud.app import payments
from headrace.aggregates.sketches.sketch_sizes import hyperloglog_lg_k
from headrace.declare.durations import duration_text, duration_us
from headrace.declare.features.windows import choose_hop_us
from headrace.lake.formats.arrow_schemas import arrow_schema
from headrace.lake.formats.registry import FormatName, create_lake
from headrace.lake.ingestion.table_mapping import DAY, silver_mapping
from headrace.lake.lake_table import LakeTable, TablePosition

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").rglob("*.md")),
]
CHANGELOG = ROOT / "CHANGELOG.md"
names = [str(page.relative_to(ROOT)) for page in PAGES]

OPENING_TERMS = {
    "alerts": ["consumer lag", "service level objectives"],
    "backfill": ["Backfill", "feature view", "offline store", "online store", "materializes", "cutover"],
    "bridges": ["source connector"],
    "brokers": ["Kafka authentication", "SASL", "SCRAM", "mTLS"],
    "change-capture": ["Change data capture (CDC)", "Debezium"],
    "clients": ["online store"],
    "dead-letters": ["Dead-letter queue"],
    "derived-streams": ["watermark", "allowed lateness"],
    "drift": ["drift"],
    "hot-keys": ["data skew", "salting"],
    "how-it-works": ["feature store", "online store", "deduplicates", "training-serving skew"],
    "http": ["inference", "readiness", "liveness"],
    "joins": ["interval join", "as-of", "point-in-time", "lookup join"],
    "lake": ["offline store"],
    "metrics": ["consumer lag", "watermark"],
    "models": ["model registry", "champion", "challengers", "shadow", "canary", "rollback"],
    "outbox": ["Transactional outbox", "at least once", "deduplication"],
    "outcomes": ["labels", "predictions", "retraining"],
    "patterns": ["complex event processing", "CEP"],
    "quality": ["performance monitoring", "AUC", "calibration"],
    "schemas": ["schema registry", "schema evolution"],
    "security": ["Authentication", "authorization", "rate limits"],
    "sinks": ["delivery semantics", "exactly", "backpressure", "dead-letter queue"],
    "state": ["watermark", "savepoints"],
    "stores": ["online store", "materialized"],
    "supervision": ["back-off"],
    "training": ["point-in-time join", "training-serving skew"],
    "windows": ["tumbling", "session", "watermarks", "allowed lateness", "triggers", "retractions"],
}


def table_after(page: Path, heading: str) -> list[list[str]]:
    """The cells of the first table after a text, without its head."""
    rest = page.read_text().split(heading, 1)[1]
    rows = re.search(r"(?:^\|.*\n)+", rest, re.MULTILINE)
    assert rows is not None
    return [[cell.strip() for cell in row.strip("| ").split("|")] for row in rows[0].splitlines()[2:]]


def headings(page: Path) -> list[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return [re.sub(r"[^\w\- ]", "", title).strip().lower().replace(" ", "-") for title in titles]


def anchors(page: Path) -> list[str]:
    """What a link to a page may lead to: its headings, and the names that headings had before."""
    return headings(page) + re.findall(r'<a id="([\w-]+)"></a>', page.read_text())


def make_lake(lake: Path, kind: FormatName) -> None:
    """Two payments, one of them sent twice, as Spark would have landed them."""
    create_lake(lake, kind)
    table = LakeTable(lake, silver_mapping(payments))
    table.prepare()
    at = datetime(2026, 1, 1, tzinfo=UTC)
    rows = [
        {
            "payment_id": number,
            "card": "c1",
            "amount": 5.0,
            "at": at,
            "hr_arrival": at,
            "hr_partition": 0,
            "hr_offset": place,
        }
        for place, number in enumerate(["p1", "p2", "p2"])
    ]
    file = table.folder / "hr_day=2026-01-01" / "landed.parquet"
    file.parent.mkdir()
    columns = pa.schema([field for field in arrow_schema(table.mapping) if field.name != DAY])
    pq.write_table(pa.Table.from_pylist(rows, columns), file)
    table.commit([file], {0: TablePosition(2, 2)})


@pytest.mark.parametrize("page", PAGES, ids=names)
def test_the_examples_of_a_page_run(request, page, tmp_path, monkeypatch):
    if page.name == "lake.md":
        monkeypatch.chdir(tmp_path)
        make_lake(tmp_path / ".headrace" / "lake", "delta")
        make_lake(tmp_path / "iceberg", "iceberg")
    if "SparkSession" in page.read_text():
        request.getfixturevalue("spark")  # the session of the whole run is the one a page gets
    namespace: dict[str, object] = {}
    for block in re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL):
        exec(compile(block, str(page), "exec"), namespace)


@pytest.mark.parametrize("page", [*PAGES, CHANGELOG], ids=[*names, CHANGELOG.name])
def test_the_links_of_a_page_lead_somewhere(page):
    for target in re.findall(r"\]\((?!https?:)([^)]+)\)", page.read_text()):
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), target
        assert not anchor or anchor in anchors(there), target


@pytest.mark.parametrize("page", PAGES, ids=names)
def test_each_anchor_of_a_page_leads_to_one_place(page):
    assert len(anchors(page)) == len(set(anchors(page)))


@pytest.mark.parametrize(("page", "terms"), OPENING_TERMS.items())
def test_the_opening_of_a_page_has_the_words_that_one_searches_for(page, terms):
    opening = re.split(r"^#{2,} |^```", (ROOT / "docs" / f"{page}.md").read_text(), maxsplit=1, flags=re.MULTILINE)[0]
    assert [term for term in terms if term not in opening] == []


def test_each_page_that_the_code_speaks_of_exists():
    pages = {
        (file, page, anchor)
        for file in (ROOT / "src").rglob("*.py")
        for page, anchor in re.findall(r"\b(docs/[\w/-]+\.md)(?:#([\w-]+))?", file.read_text())
    }
    assert pages
    for file, page, anchor in pages:
        assert (ROOT / page).exists(), f"{file} speaks of {page}"
        assert not anchor or anchor in anchors(ROOT / page), f"{file} speaks of {page}#{anchor}"


def test_the_table_of_hops_is_the_one_that_is_used():
    rows = table_after(ROOT / "docs" / "declarations.md", "## Windows and hops")
    for window, hop, _ in rows[1:]:
        length_us = duration_us(window.removeprefix("from ").replace(" ", ""), "the table")
        assert duration_text(choose_hop_us(length_us)) == hop.replace(" ", "")
        assert choose_hop_us(length_us - 1000) < choose_hop_us(length_us)
    assert duration_text(choose_hop_us(duration_us("239s", "the table"))) == "1s"


def test_the_table_of_errors_is_the_one_that_is_used():
    rows = table_after(ROOT / "docs" / "declarations.md", "It costs up to this much a tile")
    for error, registers, stated, _ in rows:
        k = 2 ** hyperloglog_lg_k(float(error.split()[0]))
        assert k == int(registers.replace(",", ""))
        assert f"{104 / k**0.5:.1f} %" == stated
