"""The fraud app under load and a schedule of faults: `python -m tests.soak --minutes 90 --seed 1`.

At the end every record of the raw log must have its one fate, every card its count and sum, and the sink, the lake and
the predictions every payment; what the processes take of the machine must not grow.
"""

import json
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from deltalake import DeltaTable

from headrace.declare.app import App, load_app
from headrace.kafka.producer.producer import Producer
from headrace.models.inference.prediction import decode_prediction
from tests.soak.faults import DELIVERY_SECONDS, Fault, faults, schedule
from tests.soak.oracle import Expected, expect, found_fates, records_of
from tests.soak.samples import Sampler, slopes
from tests.soak.system import APP, EXAMPLE, System, started

SETTLE_S = 900.0
LOOK_S = 5.0
CARDS_A_READ = 500
RATE = 100.0


@click.command()
@click.option("--minutes", default=90.0, show_default=True, help="How long payments are sent.")
@click.option("--seed", default=1, show_default=True, help="The order of faults, and the payments.")
@click.option("--gap", default=60.0, show_default=True, help="Seconds from one fault to the next.")
@click.option("--only", help="Only faults whose name contains this text.")
@click.option("--out", type=click.Path(path_type=Path), help="Where to write samples and result, as JSON.")
def main(minutes: float, seed: int, gap: float, only: str | None, out: Path | None) -> None:
    """Soak the fraud app."""
    temporary = tempfile.TemporaryDirectory(prefix="headrace-soak-", ignore_cleanup_errors=True)
    with temporary as folder, started(Path(folder), seed) as system:
        soak = Soak(system, seed)
        try:
            struck = soak.endure(minutes * 60, gap, only)
            problems = soak.settle()
        except BaseException:
            if out is not None:
                keep_evidence(soak, system, out)
            raise
        result = {"problems": problems, "faults": struck, "slopes": slopes(soak.samples)}
        say(json.dumps(result, indent=1))
        if out is not None:
            out.write_text(json.dumps(result | {"samples": [asdict(one) for one in soak.samples]}))
    say("soak: every count is exact" if not problems else f"soak: {len(problems)} counts are wrong")
    sys.exit(1 if problems else 0)


def keep_evidence(soak: "Soak", system: System, out: Path) -> None:
    """Keep the evidence of a failed soak: the samples, and the logs of all parts beside them."""
    out.write_text(json.dumps({"samples": [asdict(one) for one in soak.samples]}))
    logs = out.with_suffix(".logs")
    shutil.copytree(system.running.state / "logs", logs, dirs_exist_ok=True)
    shutil.copy(system.running.output, logs)


def say(line: str) -> None:
    click.echo(line)
    sys.stdout.flush()


class Soak:
    """A system under load, the records sent to it, and the samples of its resource use."""

    def __init__(self, system: System, seed: int) -> None:
        from payments import Timeline
        from traffic import Load

        self._system, self._app = system, load_app(str(APP))
        self._producer = Producer(system.running.broker, delivery_seconds=DELIVERY_SECONDS)
        self._load = Load(self._producer, Timeline(seed, time.time_ns() // 1000, RATE))
        self._seed, self._poison = seed, set[bytes]()
        self._sampler = Sampler(system)

    @property
    def samples(self) -> list[Any]:
        return self._sampler.samples

    def endure(self, seconds: float, gap_s: float, only: str | None) -> list[str]:
        """Send payments during the faults; returns the faults that struck."""
        available = [fault for fault in faults(self._poison.add) if only is None or only in fault.name]
        struck, began = list[str](), time.monotonic()
        self._load.start()
        self._sampler.start()
        for at_s, fault in schedule(self._seed, seconds, available, gap_s):
            time.sleep(max(0.0, began + at_s - time.monotonic()))
            self._strike(fault, began)
            struck.append(fault.name)
        time.sleep(max(0.0, began + seconds - time.monotonic()))
        self._load.stop()
        self._producer.flush()
        return struck

    def _strike(self, fault: Fault, began: float) -> None:
        say(f"{time.monotonic() - began:7.1f} s  {fault.name}")
        assert not self._system.running.ended(), self._system.running.said()
        fault.strike(self._system)

    def settle(self) -> list[str]:
        """Wait until everything is right; returns what is still wrong, one sentence each."""
        expected = expect(self._system.running.broker, self._stream, self._reasons())
        say(f"{self._load.produced} sent; { ({fate: len(found) for fate, found in expected.fates.items()}) }")
        deadline = time.monotonic() + SETTLE_S
        while (problems := list(self._problems(expected))) and time.monotonic() < deadline:
            time.sleep(LOOK_S)
        self._sampler.stop()
        return problems

    @property
    def _stream(self) -> Any:
        return next(stream for stream in self._app.streams if stream.name == "payments")

    def _reasons(self) -> dict[bytes, str]:
        timeline = self._load.timeline
        sent = map(timeline.event, range(self._load.produced))
        return {event.value: event.reason for event in sent if event.reason} | dict.fromkeys(self._poison, "poison")

    def _problems(self, expected: Expected) -> Iterator[str]:
        running, ids = self._system.running, set(expected.events)
        for fate, found in found_fates(running.broker, self._stream).items():
            yield from _difference(f"records that are {fate}", found, expected.fates[fate])
        yield from _difference("decided payments", self._predicted(), ids)
        yield from _difference("payments in the sink", self._archived(), ids)
        yield from _difference("payments in the lake", self._landed(), ids)
        yield from self._wrong_cards(expected)

    def _predicted(self) -> set[str]:
        records = records_of(self._system.running.broker, _model(self._app).predictions)
        return {decode_prediction(record.value or b"").event_id for record in records}

    def _archived(self) -> set[str]:
        return {row[0] for row in self._system.postgres.ask("select payment_id from payments")}

    def _landed(self) -> set[str]:
        table = DeltaTable(self._system.running.state / "lake" / "silver" / "payments")
        return set(table.to_pyarrow_table(columns=["payment_id"])["payment_id"].to_pylist())

    def _wrong_cards(self, expected: Expected) -> Iterator[str]:
        wanted = expected.by_card()
        cards = list(wanted)
        for start in range(0, len(cards), CARDS_A_READ):
            for row in self._system.running.features("CardSpend", cards[start : start + CARDS_A_READ]):
                count, total = wanted[row["card"]]
                values = row["values"]
                if values["payments_7d"] != count or abs((values["spend_7d"] or 0.0) - total) > 1e-6 * max(1.0, total):
                    yield f"card {row['card']}: {values['payments_7d']}, {values['spend_7d']}; want {count}, {total}"


def _model(app: App) -> Any:
    return app.model("fraud")


def _difference(what: str, found: set[Any], wanted: set[Any]) -> Iterator[str]:
    missing, extra = wanted - found, found - wanted
    if missing or extra:
        some, more = sorted(missing)[:3], sorted(extra)[:3]
        yield f"{what}: {len(missing)} missing, such as {some}; {len(extra)} too many, such as {more}"


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # stops what was started
    sys.path.insert(0, str(EXAMPLE))
    main()
