"""A season of flights through all of Headrace: predictions at departure, labels at arrival, retraining every month.

 May, at once    June, July, August, at the speed of scoring
├───────────────┼──────────────────┼──────────────────┼──────────────────┤ until the last flights have landed
 tiles, lake     version 1          2, if it is better  3, if it is better
               train              retrain             retrain

python examples/flights/demo.py
python examples/flights/demo.py --state .flights --for 3m     some weeks; the next run continues from there
"""

import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from math import inf
from pathlib import Path

import chart
import click
import prepare
import pyarrow as pa
from comparing import compared_areas, compared_states
from drifting import drift
from landed import Lake, between, from_
from late import late
from replaying import Replay, Scores, in_order
from running import Place, metrics, running, wait_for
from seen import FIRST, Decision, Judged, Month, Season, months, us
from truth import Landed

from headrace.declare.durations import duration_us
from headrace.declare.models.labels import Labels
from headrace.declare.streams.stream import Stream
from headrace.kafka.producer.producer import Producer
from headrace.models.versions.version_store import VersionStore
from headrace.monitoring.quality import realized_quality
from headrace.telemetry.values.quality_values import QualityValues

APP = Path(__file__).with_name("late.py")
SLICE_US = 60 * prepare.MINUTE_US
AFTERWARDS = timedelta(days=3)  # after it, no label of the season can arrive, by a clock that is a day behind
WEEK = timedelta(days=7)
FLAGS = ("--lake-every", "10s", "--checkpoint", "30s")  # a restart continues quickly
QUIET_SECONDS = 3.0  # the join reports every two seconds


@click.command()
@click.option("--first", default="2013-06-01", show_default=True, help="The first day that is predicted.")
@click.option("--history", default=31, show_default=True, help="Days of training data before it.")
@click.option("--pieces", default=3, show_default=True, help="The number of months to predict.")
@click.option("--days", type=int, help="The length of a piece in days, instead of a month.")
@click.option("--for", "length", help="Stop after a week that ends later than this; run again with the same --state.")
@click.option("--out", default="flights/season.html", show_default=True, type=click.Path(path_type=Path))
@click.option("--state", type=click.Path(path_type=Path), help="Folder of lake and state; default: a temporary one.")
def main(first: str, history: int, out: Path, state: Path | None, length: str | None, **pieces: int | None) -> None:
    """Replay a season of the flights out of New York in 2013, and draw the quality of the predictions."""
    for number in (signal.SIGINT, signal.SIGTERM):  # SIGTERM stops the child processes too, like Ctrl-C
        signal.signal(number, signal.default_int_handler)
    season = Season(months(datetime.fromisoformat(first).replace(tzinfo=UTC), pieces["pieces"] or 1, pieces["days"]))
    began, seconds = time.monotonic(), inf if length is None else duration_us(length, "--for") / 1e6
    with _folder(state) as folder:
        say(f"reading the flights of 2013; state and logs are in {folder}")
        recordings = recorded(season.begin - timedelta(days=history), season.end + AFTERWARDS)
        wrong = Demo(recordings, folder, season).run(began + seconds, out)
    say(f"took {(time.monotonic() - began) / 60:.1f} minutes")
    sys.exit(1 if wrong else 0)


def say(line: str) -> None:
    click.echo(line)
    sys.stdout.flush()


@contextmanager
def _folder(wanted: Path | None) -> Iterator[Path]:
    if wanted is not None:
        wanted.mkdir(parents=True, exist_ok=True)
        yield wanted.resolve()
        return
    with tempfile.TemporaryDirectory(prefix="headrace-flights-", ignore_cleanup_errors=True) as name:
        yield Path(name)


def recorded(begin: datetime, end: datetime) -> dict[str, pa.Table]:
    """The events of both streams that were reported between two times."""
    flights = prepare.read_flights()
    whole = {"departures": prepare.departures(flights), "arrivals": prepare.arrivals(flights)}
    return {name: between(events, "reported_at", begin, end) for name, events in whole.items()}


@dataclass(frozen=True)
class Up:
    """The running app, its replay, and the consumers of its topics."""

    place: Place
    replay: Replay
    scores: Scores
    quality: QualityValues


class Demo:
    """Runs a season from its first report to its page."""

    def __init__(self, recordings: dict[str, pa.Table], folder: Path, season: Season) -> None:
        self._recordings, self._folder, self._season = recordings, folder, season
        self._state, self._kept = folder / "state", folder / "season.json"
        self._versions = VersionStore(self._state, late.name)
        self._labels = declared()
        self._streams: list[Stream] = [late.stream, self._labels.stream]
        self._lake = Lake(folder / "lake", late, recordings, season.begin)
        self._landed = Landed.of(self._labels.stream, recordings[self._labels.stream.name])

    def run(self, deadline: float, out: Path) -> int:
        """Replay and train until the deadline; when all is replayed, compare and draw; the number of differences."""
        self._season.take_up(self._kept)
        say("starting headrace up late.py: broker, Spark, store, server, scorer, lake, outcomes")
        with running(APP, self._folder, *FLAGS) as place, Producer(place.broker) as producer:
            up = self._follow(place, producer)
            with up.scores.follower, up.quality.follow(place.broker):
                if not self._kept.exists():
                    self._rush_through_history(up)
                while self._season.reached < self._season.end and time.monotonic() < deadline:
                    self._go_on(up)
                is_done = self._season.reached == self._season.end and time.monotonic() < deadline
                return self._finish(up, out) if is_done else 0

    def _follow(self, place: Place, producer: Producer) -> Up:
        scores = Scores(late, place.broker, us(self._season.reached))
        since = self._season.reached if self._kept.exists() else datetime.min.replace(tzinfo=UTC)
        left = {name: from_(events, "reported_at", since) for name, events in self._recordings.items()}
        events = in_order(self._streams, late.stream, left, self._folder)
        return Up(place, Replay(events, producer, SLICE_US), scores, QualityValues([late]))

    def _rush_through_history(self, up: Up) -> None:
        began = time.monotonic()
        up.replay.rush_until(us(self._season.begin))
        self._lake.wait_until(self._season.begin, self._streams)
        self._season.keep(self._kept)
        say(f"{up.replay.sent:,} reports of what came before are in the lake: {time.monotonic() - began:.0f} s")

    def _decide(self, month: Month) -> None:
        """Train on the data known at the start of a month; the first version keeps scoring, as a challenger."""
        began = time.monotonic()
        where = ["--lake", str(self._lake.folder), "--state", str(self._state)]
        report = json.loads(headrace("retrain", str(APP), late.name, *where, "--why", f"{month.name} begins", "--json"))
        decision = Decision(month.begin, report["version"], report["promoted"], report["reason"])
        self._season.decisions.append(decision)
        self._season.keep(self._kept)
        champion = self._versions.load_roles()
        if FIRST not in (champion.champion, *champion.challengers):
            headrace("models", "shadow", str(APP), late.name, FIRST, "--state", str(self._state))
        say(f"{month.begin:%Y-%m-%d}  {chart.in_words(decision)} ({time.monotonic() - began:.0f} s)")

    def _go_on(self, up: Up) -> None:
        """Train a version at the start of a month; otherwise replay a week, or the rest of the month."""
        began, reached = time.monotonic(), self._season.reached
        month = next(one for one in self._season.months if one.begin <= reached < one.end)
        if all(decision.at < month.begin for decision in self._season.decisions):
            self._lake.wait_until(month.begin, self._streams)
            self._decide(month)
            return
        at = min(reached + WEEK, month.end)
        up.replay.until(us(at), up.scores)
        self._look(up, at, time.monotonic() - began)
        self._season.keep(self._kept)

    def _look(self, up: Up, at: datetime, seconds: float) -> None:
        """Print the quality known at a time, once all events up to it are joined."""
        wait_until_joined(up.place)
        look = Judged(up.quality.tables[late.name]).look(at)
        self._season.looks.append(look)
        lacking = ", ".join(f"{count} {reason}" for reason, count in up.scores.degraded.items()) or "none degraded"
        say(
            f"{at:%Y-%m-%d}  {up.scores.events:7,} predicted, {lacking}; of the last week AUC {_said(look.realised)}, "
            f"estimated {_said(look.estimated)}; coverage of the last day {_said(look.coverage, 2)}  ({seconds:.0f} s)"
        )

    def _wait_for_the_last(self, up: Up) -> None:
        """Replay until no further label of the season can arrive."""
        last = self._season.end + AFTERWARDS
        say(f"{self._season.end:%Y-%m-%d}  replaying three more days, until the last flights have landed")
        up.replay.until(us(last), up.scores)
        wait_until_joined(up.place)
        self._lake.wait_until(last, self._streams)
        self._lake.wait_until_scored(up.place.broker)

    def _finish(self, up: Up, out: Path) -> int:
        """Read the season from its tiles, compare it with brute force, and draw it; the number of differences."""
        self._wait_for_the_last(up)
        judged = Judged(up.quality.tables[late.name])
        self._season.months = [self._judged(judged, month) for month in self._season.months]
        promoted = [decision.at for decision in self._season.decisions[1:] if decision.is_promoted]
        self._season.days = judged.days(self._season.begin, self._season.end, min(promoted, default=self._season.end))
        states = compared_states(self._lake, self._labels, self._landed, metrics(up.place.url))
        compared = [states, *compared_areas(self._lake, self._landed, self._season.months)]
        comparisons = [one.words for one in compared]
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(chart.page(self._season, comparisons))
        out.with_suffix(".svg").write_text(chart.picture(self._season))
        say(
            "\n".join(
                [
                    "",
                    *chart.lines(self._season),
                    "",
                    *comparisons,
                    "",
                    f"the chart is in {out} and {out.with_suffix('.svg')}",
                ]
            )
        )
        return sum(not one.is_same for one in compared)

    def _judged(self, judged: Judged, month: Month) -> Month:
        first, champion = (judged.between(month.begin, month.end, version) for version in (FIRST, None))
        served = between(self._lake.served("features", "score", "event_time"), "event_time", month.begin, month.end)
        found = drift(late, self._versions.load_card(self._season.champion(month.begin)), served)
        drifted = tuple((one.column, one.distance) for one in found if not one.is_score)
        return replace(
            month, first_auc=realized_quality.auc(first), champion_auc=realized_quality.auc(champion), drifted=drifted
        )


def headrace(*words: str) -> str:
    """The output of a headrace command."""
    run = subprocess.run([sys.executable, "-m", "headrace", *words], capture_output=True, text=True, check=False)
    if run.returncode:
        raise SystemExit(f"headrace {' '.join(words)} failed:\n{run.stderr[-2000:]}")
    return run.stdout


def wait_until_joined(place: Place) -> None:
    """Wait until every prediction and label in the log is joined: until the join has had no lag for QUIET_SECONDS."""
    quiet_since = time.monotonic()

    def joined() -> bool:
        nonlocal quiet_since
        if metrics(place.url).get(f'headrace_outcomes_lag{{model="{late.name}"}}') != 0:
            quiet_since = time.monotonic()
        return time.monotonic() > quiet_since + QUIET_SECONDS

    wait_for(joined, "outcomes to be joined")


def declared() -> Labels:
    """The labels of the model: whether a flight was late."""
    if late.labels is None:
        raise SystemExit("The model has no labels.")
    return late.labels


def _said(value: float | None, digits: int = 4) -> str:
    return "—" if value is None else f"{value:.{digits}f}"


if __name__ == "__main__":
    main()
