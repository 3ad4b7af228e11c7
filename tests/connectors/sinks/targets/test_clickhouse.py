"""ClickHouse over HTTP: FINAL reads every row once; rows it cannot store are found before they are sent."""

import math
import struct
from typing import Any

import pytest

import headrace as hr
from headrace.connectors.sinks.sink_part import create_sink_writer
from headrace.connectors.sinks.writer import RowsRejected, SinkConfig, SinkWriter, TargetUnavailable
from headrace.declare.sinks.sink import Sink
from headrace.embedded_servers.broker import EmbeddedBroker
from tests.clickhouse import OwnClickHouse
from tests.connectors.sinks.gate_output import Gate, event, new_stream, sinking
from tests.connectors.sinks.target_reader import by, in_clickhouse, timed
from tests.connectors.sinks.test_offset_fencing import ids, rows_of, stream
from tests.connectors.sinks.test_target_failures import wait_for
from tests.connectors.sinks.test_targets import DELIVERIES, HOSTILE, filled, settle
from tests.waiting import wait_until

LIMIT_S = 60.0
MADE = (
    "id String, card Nullable(String), amount Nullable(Float64), big Nullable(UInt8), n Nullable(Int64), "
    "at Nullable(Int64), hr_partition Int32, hr_offset Int64"
)
ONE_A_PLACE = "ENGINE = ReplacingMergeTree() ORDER BY (hr_partition, hr_offset)"


def to(table: str) -> hr.ClickHouse:
    return hr.ClickHouse("env:CLICKHOUSE_URL", table=table)


@pytest.fixture(autouse=True)
def address(clickhouse: OwnClickHouse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLICKHOUSE_URL", clickhouse.url)


def writer(table: str, **how: Any) -> SinkWriter:
    return create_sink_writer(Sink(f"to {table}", of=stream, to=to(table), **how), SinkConfig("nowhere"))


@pytest.mark.parametrize("delivery", DELIVERIES)
@pytest.mark.shows("ClickHouse", delivery=("at_most_once", "at_least_once", "exactly_once"))
def test_a_table_of_clickhouse_has_every_event_the_gate_let_through(
    broker: EmbeddedBroker, clickhouse: OwnClickHouse, delivery: Any
) -> None:
    gate, table = filled(broker.address), f"every_{delivery}"
    final = "FINAL" if delivery == "exactly_once" else ""
    sink = Sink(table, of=gate.stream, to=to(table), delivery=delivery)
    settle(sink, broker.address, lambda: in_clickhouse(clickhouse, table, final), 440)
    found = in_clickhouse(clickhouse, table, final)
    assert sorted(found, key=repr) == sorted(map(timed, gate.sent), key=repr)


def test_what_is_written_again_in_any_order_is_one_row_and_the_right_one(clickhouse: OwnClickHouse) -> None:
    places, last = writer("again", delivery="exactly_once"), writer("last", key="card")
    first = writer("first", key="id")
    for copies in (places, last):
        old, new = rows_of(copies, event(1, card="c1"), event(2, card="c1"))
        for rows in ([new], [old], [old, new], [old]):
            copies.write(rows)
    for row in reversed(rows_of(first, event(1, amount=1.0), event(1, amount=2.0))):
        first.write([row])
    assert ids(in_clickhouse(clickhouse, "again")) == ["e1", "e2"]
    assert ids(in_clickhouse(clickhouse, "last")) == ["e2"]
    assert [row["amount"] for row in in_clickhouse(clickhouse, "first")] == [1.0]
    clickhouse.tell("OPTIMIZE TABLE again FINAL")
    assert ids(in_clickhouse(clickhouse, "again", final="")) == ["e1", "e2"]


def test_values_arrive_bit_by_bit(clickhouse: OwnClickHouse) -> None:
    odd = [0.1 + 0.2, 5e-324, 1.7976931348623157e308, -0.0, math.inf, -math.inf]
    sent = [*odd[:4], "Infinity", "-Infinity", "NaN", None]
    copies = writer("odd `table` it's", columns=["id", "amount", "n", "at", "big"])
    times = {"n": -(2**63), "at": "1969-12-31T23:59:59.999999Z", "big": None}
    copies.write(rows_of(copies, *(event(number, amount=one, **times) for number, one in enumerate(sent))))
    copies.write(rows_of(copies, event(9, id=HOSTILE + "\0", n=2**63 - 1, big=True), begin=8))
    table = "`odd \\`table\\` it's`"
    rows = clickhouse.ask(
        f"SELECT id, reinterpretAsUInt64(reinterpretAsString(assumeNotNull(amount))) AS bits, amount, n, at, big "
        f"FROM {table} ORDER BY hr_offset"
    )
    assert [row["bits"] for row in rows[:6]] == [struct.unpack("<Q", struct.pack("<d", one))[0] for one in odd]
    assert [rows[6]["amount"], rows[7]["amount"]] == ["nan", None]
    assert {(row["n"], row["at"], row["big"]) for row in rows[:8]} == {(-(2**63), -1, None)}
    assert (rows[8]["id"], rows[8]["n"], rows[8]["big"]) == (HOSTILE + "\0", 2**63 - 1, 1)


def test_a_server_that_is_away_is_waited_for_and_its_password_shown_nowhere(
    broker: EmbeddedBroker, clickhouse: OwnClickHouse, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    gate = Gate(broker.address, new_stream(broker.address))
    sink = Sink("away", of=gate.stream, to=to("away"), delivery="exactly_once")
    with sinking(sink, SinkConfig(broker.address)) as running:
        gate.send(*map(event, range(50)))
        wait_for(running, "written", 50)
        clickhouse.kill()
        try:
            gate.send(*map(event, range(50, 100)))
            wait_until(
                lambda: running.processor.error and running.processor.retry_count > 2, LIMIT_S, "trouble to be told"
            )
            told = str(running.progress())
        finally:
            clickhouse.start()
        wait_for(running, "written", 100)
        assert set(running.processor.fate_counts) == {"written"}
    assert by("id", in_clickhouse(clickhouse, "away")) == {name: timed(one) for name, one in gate.first().items()}
    assert "ClickHouse does not take rows: [Errno 111] Connection refused" in told
    assert "hush-hush" not in told + caplog.text + repr(sink)


def test_bad_rows_are_parked_and_all_others_written(broker: EmbeddedBroker, clickhouse: OwnClickHouse) -> None:
    gate = Gate(broker.address, new_stream(broker.address))
    clickhouse.tell(f"CREATE TABLE bad ({MADE}, few UInt8 MATERIALIZED throwIf(amount > 1000)) {ONE_A_PLACE}")
    bad = [event(7, id="bad7", amount=5000.0), b"no json", event(8, id=None)]
    gate.send(*map(event, range(40)), *bad, *map(event, range(40, 60)))
    sink = Sink("bad", of=gate.stream, to=to("bad"), delivery="exactly_once")
    with sinking(sink, SinkConfig(broker.address)) as running:
        wait_for(running, "parked", 3)
        wait_for(running, "written", 60)
        assert dict(running.processor.reason_counts) == {"rejected": 1, "not-json": 1, "null": 1}
    assert ids(in_clickhouse(clickhouse, "bad")) == sorted(f"e{number}" for number in range(60))


def test_what_the_server_rejects_it_has_none_of_and_it_is_not_quoted(clickhouse: OwnClickHouse) -> None:
    clickhouse.tell(f"CREATE TABLE none ({MADE}, few UInt8 MATERIALIZED throwIf(amount > 1000)) {ONE_A_PLACE}")
    copies = writer("none", delivery="exactly_once")
    with pytest.raises(RowsRejected, match=r"^rejected: Value passed to 'throwIf' function is non zero$"):
        copies.write(rows_of(copies, event(1), event(2, amount=5000.0)))
    assert in_clickhouse(clickhouse, "none") == []


@pytest.mark.parametrize(
    ("table", "how", "said"),
    [
        ("id String) ENGINE = Log", {}, "has no column 'card' that takes values, and it has to be String"),
        (MADE.replace("at Nullable(Int64)", "at DateTime") + f") {ONE_A_PLACE}", {}, "has 'at' as DateTime, and"),
        (MADE.replace("n Nullable(Int64)", "n Int32") + f") {ONE_A_PLACE}", {}, "has 'n' as Int32, and it has to be"),
        (
            MADE + ") ENGINE = MergeTree() ORDER BY (hr_partition, hr_offset)",
            {"delivery": "exactly_once"},
            r"is a MergeTree ordered by \(hr_partition, hr_offset\): a retry would write duplicate rows",
        ),
        (
            MADE + ", hr_version UInt64) ENGINE = ReplacingMergeTree(hr_version) ORDER BY (id, hr_offset)",
            {"key": "id"},
            r"It has to be ReplacingMergeTree\(hr_version\) ORDER BY \(id\)",
        ),
        (
            MADE + ", hr_version UInt64) ENGINE = ReplacingMergeTree() ORDER BY id",
            {"key": "id"},
            r"It has to be ReplacingMergeTree\(hr_version\) ORDER BY \(id\)",
        ),
    ],
)
def test_a_table_that_does_not_fit_is_told_of_before_any_row_is_sent(
    clickhouse: OwnClickHouse, table: str, how: Any, said: str
) -> None:
    clickhouse.tell("DROP TABLE IF EXISTS unfit")
    clickhouse.tell(f"CREATE TABLE unfit ({table}")
    with pytest.raises(TargetUnavailable, match=said):
        writer("unfit", **how).open()


def test_a_table_of_ones_own_that_is_ordered_otherwise_and_has_more_columns_is_taken(clickhouse: OwnClickHouse) -> None:
    order = "ENGINE = ReplacingMergeTree() PARTITION BY intDiv(hr_offset, 2) ORDER BY (id, hr_partition, hr_offset)"
    clickhouse.tell(f"CREATE TABLE own ({MADE}, more String DEFAULT 'x') {order}")
    copies = writer("own", delivery="exactly_once")
    for _ in range(2):
        copies.write(rows_of(copies, *map(event, range(5))))
    assert ids(in_clickhouse(clickhouse, "own")) == [f"e{number}" for number in range(5)]


def test_a_table_that_changes_under_the_sink_is_never_misread(clickhouse: OwnClickHouse) -> None:
    clickhouse.tell(f"CREATE TABLE changed ({MADE}) {ONE_A_PLACE}")
    copies = writer("changed")
    copies.write(rows_of(copies, event(1)))
    clickhouse.tell("ALTER TABLE changed MODIFY COLUMN n Nullable(String)")
    with pytest.raises(TargetUnavailable):
        copies.write(rows_of(copies, event(2), begin=1))
    with pytest.raises(TargetUnavailable, match="has 'n' as Nullable"):
        copies.write(rows_of(copies, event(2), begin=1))


def test_over_https_with_a_certificate_of_ones_own(clickhouse: OwnClickHouse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(
        "CLICKHOUSE_URL",
        clickhouse.url.replace("http:", "https:").replace(str(clickhouse.port), str(clickhouse.https_port)),
    )
    monkeypatch.setenv("SSL_CERT_FILE", str(clickhouse.certificate))
    copies = writer("over_https")
    copies.write(rows_of(copies, event(1)))
    assert ids(in_clickhouse(clickhouse, "over_https", final="")) == ["e1"]


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("", "variable CLICKHOUSE_URL is not set"),
        ("http://headrace:s3cret@127.0.0.1:{port}/default", "Wrong password for user headrace"),
        ("http://reader:{password}@127.0.0.1:{port}/default", "Cannot create table in readonly mode"),
        ("http://headrace:{password}@127.0.0.1:{port}/nowhere", "Database nowhere doesn't exist"),
        ("postgres://headrace:s3cret@127.0.0.1", "it is no address: write http://user:password@host:8123/database"),
        ("http://headrace:s3cret@127.0.0.1:1/default", "Connection refused"),
        ("https://headrace:s3cret@127.0.0.1:{https_port}/default", "certificate verify failed"),
    ],
)
def test_what_keeps_a_sink_out_is_told_without_the_password(
    clickhouse: OwnClickHouse, monkeypatch: pytest.MonkeyPatch, url: str, said: str
) -> None:
    monkeypatch.setenv(
        "CLICKHOUSE_URL", url.format(port=clickhouse.port, https_port=clickhouse.https_port, password="hush-hush")
    )
    with pytest.raises(TargetUnavailable, match=said) as told:
        writer("kept_out").open()
    assert "s3cret" not in str(told.value)
    assert "hush" not in str(told.value)
