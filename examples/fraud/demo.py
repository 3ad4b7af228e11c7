"""The fraud example from history to decision: trains a model, starts Headrace, sends payments, checks the counts.

python examples/fraud/demo.py            until Ctrl-C on a terminal, two minutes in a pipe
python examples/fraud/demo.py --for 30s
"""

import contextlib
import math
import signal
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click
from api import Api, NotReady
from app import CardSpend, fraud, tested
from decisions import Decisions
from payments import Timeline, Truth, truth
from readings import Scrape, Totals, delay_of, histogram_delay
from rich.console import Console
from rich.live import Live
from screen import Moment, Result, line, live, summary
from server import Place, Server, ServerFailed, port_near
from traffic import TOPIC, Load, Probes
from training import TrainingFailed, train_once
from verdicts import Verdicts

import headrace as hr
from headrace.client.protocol import FeatureRow
from headrace.declare.durations import duration_us
from headrace.kafka.producer.producer import Producer

APP = Path(__file__).with_name("app.py")
BUSIEST = ["c1", "c2", "c3", "c4"]
SETTLE_SECONDS = 180.0  # on a busy machine operators start late
RECENT_SECONDS = 30.0
WARM_UP_SECONDS = 30.0  # until the JVM has compiled hot code; delays before are shown live, but not in the summary


@click.command()
@click.option("--for", "length", envvar="HEADRACE_DEMO_FOR", help="30s, 2m …; default: until Ctrl-C, or 2m in a pipe.")
@click.option("--rate", default=100.0, show_default=True, help="Payments a second.")
@click.option("--seed", type=int, help="The seed of the payments; default: the time.")
@click.option("--http-port", default=8080, show_default=True, help="A free port if it is in use.")
@click.option("--broker-port", default=9092, show_default=True, help="A free port if it is in use.")
@click.option("--broker", envvar="HEADRACE_BROKER", metavar="HOST:PORT", help="Your Kafka; default: start a broker.")
@click.option("--state", type=click.Path(path_type=Path), help="Folder of the state; default: a temporary one.")
def main(length: str | None, rate: float, seed: int | None, state: Path | None, **where: Any) -> None:
    """Run the fraud example on this machine."""
    http_port, broker_port = where["http_port"], where["broker_port"]
    console = Console(highlight=False, soft_wrap=True)
    for number in (signal.SIGINT, signal.SIGTERM):  # a shell may start us with Ctrl-C ignored
        signal.signal(number, signal.default_int_handler)
    try:
        seconds = _seconds(length, console.is_terminal)
        with _state(state) as folder:
            place = Place(port_near(http_port), port_near(broker_port), folder, where["broker"])
            if (place.http_port, place.broker_port) != (http_port, broker_port):
                console.print(f"Other ports than requested: HTTP is on {place.http}, the broker on {place.broker}.")
            sys.exit(run(place, Timeline(seed or int(time.time()), 0, rate), seconds, console))
    except (ServerFailed, TrainingFailed, hr.HeadraceError, NotReady) as error:
        Console(stderr=True, soft_wrap=True).print(str(error), markup=False, highlight=False)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)


def run(place: Place, timeline: Timeline, seconds: float, console: Console) -> int:
    """Run the demo and print its summary; 0 if the server's counts match what was sent, and all of it was decided."""
    train_once(APP, fraud.name, place.state, timeline.seed, lambda text: console.print(text, markup=False))
    console.print(f"Starting headrace up {APP.name} with its state in {place.state}")
    with Server(APP, place) as server:
        server.wait_ready(lambda text: console.print(f"  {text}", markup=False))
        console.print(f"Ready: {place.url}  broker {place.broker}  log {server.log}")
        verdicts = Verdicts(place.broker)
        with Decisions(place.broker, fraud, timeline.seed) as decisions, verdicts.followed():
            with Producer(place.broker) as producer:
                demo = Demo(server, producer, Followed(decisions, verdicts), timeline)
                demo.watch(seconds, console)
            result = demo.settled()
        console.print("\nStopping headrace up")
    console.print(summary(result))
    if not result.agrees:
        console.print("The server's counts do not match what was sent: see the rows that differ.", style="bold red")
    return 0 if result.agrees else 1


class Followed(NamedTuple):
    """The consumers of the model's topics."""

    decisions: Decisions
    verdicts: Verdicts


class Demo:
    """A running server under load, and the measurements of it."""

    def __init__(self, server: Server, producer: Producer, followed: Followed, timeline: Timeline) -> None:
        self._server, self._api, self._client = server, Api(server.place.http), hr.Client(server.place.url)
        self._probes = Probes(producer, hr.Client(server.place.url), f"probe-{timeline.seed}")
        self._values_read = 0
        self._before = Scrape.parse(self._api.metrics())
        self._started = time.monotonic()
        self._load = Load(producer, Timeline(timeline.seed, time.time_ns() // 1000, timeline.rate))
        self._decisions, self._verdicts = followed
        self._recent = deque([(self._started, self._before)])
        self._warm = self._recent[0]

    def watch(self, seconds: float, console: Console) -> None:
        """Send payments and show the server's numbers for `seconds`, or until Ctrl-C."""
        self._load.start()
        self._probes.start()
        try:
            with _shown(console, self._server.place.url) as (show, pause):
                while time.monotonic() < self._started + seconds:
                    self._server.require_alive()
                    with contextlib.suppress(NotReady, hr.HeadraceError):
                        show(self.look())
                    time.sleep(pause)
        except KeyboardInterrupt:
            pass
        finally:
            self._load.stop()
            self._probes.stop()

    def look(self) -> Moment:
        """The server's numbers now; rate and delays are of the last half minute."""
        now, scrape = self._scraped()
        then, earlier = self._recent[0]
        recent = scrape.since(earlier)
        attacked = self._load.attacked[-3:]
        return Moment(
            seconds=int(now - self._started),
            rate=recent.total("headrace_events_total", stream=TOPIC, fate="in") / (now - then),
            lag=int(scrape.total("headrace_lag", stream=TOPIC)),
            totals=Totals.of(scrape.since(self._before), TOPIC),
            readable=delay_of(self._probes.delays(then)),
            applied=histogram_delay(recent, "headrace_apply_seconds"),
            decided=self._decisions.decided(then),
            judged=self._verdicts.judged(scrape, self._load.told),
            cards=self._rows(BUSIEST + [card for card in attacked if card not in BUSIEST]),
            attacked=attacked,
        )

    def _rows(self, cards: list[str]) -> list[FeatureRow]:
        rows = self._client.features(CardSpend, cards)
        self._values_read += sum(len(row.values) for row in rows)
        return rows

    def _scraped(self) -> tuple[float, Scrape]:
        now, scrape = time.monotonic(), Scrape.parse(self._api.metrics())
        self._recent.append((now, scrape))
        while self._recent[0][0] < now - RECENT_SECONDS:
            self._recent.popleft()
        if self._warm[0] < self._started + WARM_UP_SECONDS <= now:
            self._warm = now, scrape
        return now, scrape

    def settled(self) -> Result:
        """The result, once the server has counted all that was sent, or after SETTLE_SECONDS."""
        deadline = time.monotonic() + SETTLE_SECONDS
        sent = truth(self._load.timeline.seed, self._load.produced)
        while not (result := self._result(sent)).agrees and time.monotonic() < deadline:
            self._server.require_alive()
            time.sleep(0.25)
        return result

    def _result(self, sent: Truth) -> Result:
        scrape = Scrape.parse(self._api.metrics())
        since, (warm_at, warm) = scrape.since(self._before), self._warm
        answered = since.by("headrace_requests_total", "path", status="200")
        return Result(
            totals=Totals.of(since, TOPIC),
            truth=sent,
            probes=self._probes.sent,
            requests=int(sum(times for path, times in answered.items() if path.startswith("/features"))),
            values=self._values_read + self._probes.values_read,
            readable=delay_of(self._probes.delays(warm_at)),
            applied=histogram_delay(scrape.since(warm), "headrace_apply_seconds"),
            decided=self._decisions.decided(warm_at),
            judged=self._verdicts.judged(scrape, self._load.told),
            tested=Totals.of(since, tested.name).clean,
            warm_up_s=round(warm_at - self._started),
        )


@contextlib.contextmanager
def _shown(console: Console, url: str) -> Iterator[tuple[Callable[[Moment], None], float]]:
    """The function that shows a moment, and the pause between two."""
    if not console.is_terminal:
        yield lambda moment: console.print(line(moment), markup=False), 5.0
        return
    with Live(console=console, auto_refresh=False) as view:
        yield lambda moment: view.update(live(moment, url), refresh=True), 0.5


@contextlib.contextmanager
def _state(wanted: Path | None) -> Iterator[Path]:
    if wanted is not None:
        yield wanted.resolve()
        return
    with tempfile.TemporaryDirectory(prefix="headrace-demo-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def _seconds(length: str | None, terminal: bool) -> float:
    if length is None:
        return math.inf if terminal else 120.0
    return duration_us(length, "--for") / 1e6


if __name__ == "__main__":
    main()
