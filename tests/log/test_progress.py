"""What is missing of an app: its gates, its derived streams, its views; a query that derives is taken for no gate."""

import headrace as hr
from headrace.log.progress import ProgressBoard, QueryProgress

taps = hr.Stream("taps", schema="id string, at timestamp", id="id", key="id", time="at")
abroad = hr.derive(taps, name="abroad")(lambda taps: taps)
NOW_US = 1_767_225_600_000_000


def board(*queries: QueryProgress) -> ProgressBoard:
    found = ProgressBoard()
    found.latest = {one.query: one for one in queries}
    return found


def progress(query: str, stream: str, *, derives: tuple[str, ...] = (), running: bool = True) -> QueryProgress:
    return QueryProgress(query, stream, (), "real-time", running, NOW_US, derives=derives)


GATES = [progress("taps.gate", "taps"), progress("abroad.gate", "abroad")]


def test_an_app_waits_until_its_streams_are_derived() -> None:
    missing = ["abroad is not derived yet"]
    assert board(*GATES).missing([taps, abroad], [], NOW_US) == missing
    stands = progress("abroad.derive", "abroad", derives=("abroad",), running=False)
    assert board(*GATES, stands).missing([taps, abroad], [], NOW_US) == missing
    runs = progress("abroad.derive", "abroad", derives=("abroad",))
    assert board(*GATES, runs).missing([taps, abroad], [], NOW_US) == []


def test_a_query_that_derives_a_stream_is_not_its_gate() -> None:
    runs = progress("abroad.derive", "abroad", derives=("abroad",))
    assert board(GATES[0], runs).missing([taps, abroad], [], NOW_US) == ["the gate of abroad does not run yet"]
