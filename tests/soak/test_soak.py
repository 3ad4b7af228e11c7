"""The parts of the soak that need no running system: schedule, slopes, and the expected fate of a record."""

from pathlib import Path

from headrace.declare.app import load_app
from headrace.kafka.record import ConsumerRecord
from tests.soak.faults import POISON, faults, schedule
from tests.soak.oracle import expected_fate
from tests.soak.samples import Sample, size_mib, slopes
from tests.soak.system import APP

HOUR_S = 3600.0


def test_an_hour_and_a_half_has_every_fault_and_the_same_order_for_the_same_seed() -> None:
    available = faults(lambda _: None)
    planned = schedule(1, 1.5 * HOUR_S, available, 60.0)
    assert {fault.name for _, fault in planned} == {fault.name for fault in available}
    assert [fault.name for _, fault in schedule(1, 1.5 * HOUR_S, available, 60.0)] == [one.name for _, one in planned]
    assert [fault.name for _, fault in schedule(2, 1.5 * HOUR_S, available, 60.0)] != [one.name for _, one in planned]
    assert all(0 < at_s < 1.5 * HOUR_S - 60 for at_s, _ in planned)


def test_a_slope_is_what_is_added_in_an_hour_once_it_has_warmed_up() -> None:
    samples = [Sample(at_s, 1000 + at_s / 36, 50, 20, 9, 0.0) for at_s in range(0, 7200, 60)]
    median, slope = slopes(samples)["memory_mib"]
    assert round(slope, 6) == 100.0
    assert 1000 < median < 1200
    assert abs(slopes(samples)["threads"][1]) < 1e-9


def test_parts_and_folders_have_slopes_of_their_own_from_the_samples_that_tell_of_them() -> None:
    samples = [
        Sample(at_s, 0, 0, 0, 0, 0.0, {"lake": 7.0 + at_s / 3600}, {"logs": 3.0} if at_s % 600 == 0 else {})
        for at_s in range(0, 7200, 60)
    ]
    found = slopes(samples)
    assert round(found["memory of lake"][1], 6) == 1.0
    assert (round(found["disk of logs"][0], 6), abs(found["disk of logs"][1]) < 1e-9) == (3.0, True)


def test_a_folder_takes_what_its_files_take_of_the_disk(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "full").write_bytes(b"x" * (1 << 20))
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(1 << 30)
    assert 0.9 < size_mib(tmp_path) < 1.5


def test_a_record_is_late_or_early_by_the_time_the_log_took_it() -> None:
    payments = next(stream for stream in load_app(str(APP)).streams if stream.name == "payments")
    value = b'{"payment_id": "p", "card": "c", "amount": 1.0, "at": "2026-01-01T00:00:00.000000Z"}'
    at_us = 1_767_225_600_000_000
    fates = {
        delay_s: expected_fate(
            payments, ConsumerRecord("payments", 0, 0, at_us + delay_s * 1_000_000, None, value, None), value, ""
        )[0]
        for delay_s in (0, 120, 121, -60, -61)
    }
    assert fates == {0: "clean", 120: "clean", 121: "late", -60: "clean", -61: "dead"}
    assert all(
        expected_fate(payments, ConsumerRecord("payments", 0, 0, 0, None, one, None), one, "poison")[0] == "dead"
        for one in POISON
    )
