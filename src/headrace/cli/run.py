"""`headrace run APP PART`: one part of an app alone, against a given broker, store and Spark."""

import logging
import os
import signal
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from headrace.cli.guarded import door_of, require_guarded
from headrace.cli.savepoint import go_back
from headrace.cli.settings import BadSetting, Settings, settings_of, settings_options
from headrace.declare.app import App, load_app
from headrace.declare.changes import Changes
from headrace.declare.derivation import Operation
from headrace.local.jars import jar_paths
from headrace.local.java import find_java
from headrace.private_folder import make_private_folder

if TYPE_CHECKING:
    from headrace.lake.lake import Lake
    from headrace.outbox.table import Table
    from headrace.sink.writer import SinkPlace
    from headrace.stream.queries import Place
    from headrace.stream.run import SparkOptions
    from headrace.watch.otlp.endpoint import Endpoint

LOGGER = logging.getLogger("headrace.cli")
Run = Callable[[App, Settings, threading.Event], None]
STEP_SECONDS = 10.0


def stop_on_signals() -> threading.Event:
    """An event that Ctrl-C and SIGTERM set."""
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    return stop


def configure_logging() -> None:
    """Log to stderr, without the words of the bridge to Java."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    # An exception in Python code that Spark calls goes on to Spark, whose query fails with it and is reported with its
    # name; one of a query that is being stopped is of no interest. py4j would log a traceback of either.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)


def broker_of(settings: Settings) -> str:
    """The broker's address: the given one, or where the embedded one is."""
    return settings.broker or f"127.0.0.1:{settings.broker_port}"


def run_stream(app: App, settings: Settings, stop: threading.Event) -> None:
    # Imported here: only this part pays for Spark.
    from headrace.stream.run import run_queries

    go_back(app, settings)
    run_queries(app, place_of(settings), spark_of(settings), stop)


def run_operate(app: App, settings: Settings, stop: threading.Event) -> None:
    """Run what keeps state in Python: in a process of its own, which gives way to who answers within milliseconds."""
    from headrace.local.polite import give_way
    from headrace.stream.run import run_operations

    if not any(isinstance(made_by, Operation) for made_by in app.derivations):
        stop.wait()
        return
    begun = partial(give_way, os.getpid())
    run_operations(app, place_of(settings), spark_of(settings), stop, begun)


def place_of(settings: Settings) -> "Place":
    """What queries work with."""
    from headrace.stream.lanes import Lane
    from headrace.stream.queries import Place

    lane, broker = Lane(settings.lane), broker_of(settings)
    return Place(broker, settings.state, settings.rebuild, lane, settings.checkpoint_seconds, settings.since_us)


def spark_of(settings: Settings) -> "SparkOptions":
    """Where Spark runs."""
    from headrace.stream.run import SparkOptions

    return SparkOptions(settings.spark, jar_paths("spark"), find_java().home)


def run_lake(app: App, settings: Settings, stop: threading.Event) -> None:
    from headrace.cli.batch import batch_session
    from headrace.cli.lake import Politeness, evaluations_of, lake_of, missing_outcomes
    from headrace.evaluate.evaluations import Evaluations
    from headrace.lake.writer import LakeWriter
    from headrace.log.produce import Producer
    from headrace.log.progress import report
    from headrace.log.retries import retry_until
    from headrace.stream.session import process_of
    from headrace.stream.session_liveness import wait_while_alive

    lake = lake_of(app, settings)
    if lake is None:
        for missing in missing_outcomes(app, settings):
            LOGGER.warning(missing)
        stop.wait()
        return
    if not retry_until(partial(_prepared, lake), stop, "Lake"):
        return
    politeness = Politeness(stop)
    with batch_session(settings.spark) as spark:
        politeness.spark = process_of(spark)
        writer = LakeWriter(spark, lake, lake.tables, politeness)
        setups = evaluations_of(spark, app, lake, settings.state)
        evaluations = Evaluations(setups, partial(report, Producer(lake.broker)))
        politeness.beside = [evaluations]
        parts: list[LakeWriter | Evaluations] = [writer, evaluations]
        for part in parts:
            part.start()
        wait_while_alive(spark, stop)
        for part in parts:
            part.stop()
        for part in parts:
            part.join(timeout=STEP_SECONDS)


def _prepared(lake: "Lake") -> bool:
    from headrace.lake.lake import prepare

    for problem in prepare(lake):
        LOGGER.error("%s", problem)
    return True


def run_serve(started_as: str, app: App, settings: Settings, stop: threading.Event) -> None:
    from headrace.cli.asked import asked_of
    from headrace.cli.workers import serve_by_workers, worker_of
    from headrace.serve.server import ServePlace, serve

    require_guarded(settings)
    if settings.workers > 1 and settings.worker is None:
        serve_by_workers(settings, stop)
        return
    address = (settings.host, settings.port)
    place = ServePlace(
        broker_of(settings),
        settings.store,
        address,
        settings.state,
        worker_of(settings),
        settings.lake,
        settings.access,
    )
    serve(app, place, stop, asked_of(started_as, app, settings))


def run_apply(app: App, settings: Settings, stop: threading.Event) -> None:
    from headrace.store.apply import apply_until

    apply_until(app, broker_of(settings), settings.store, stop)


def run_check(app: App, settings: Settings, stop: threading.Event) -> None:
    from headrace.lake.watch import watch_until

    watch_until(app, broker_of(settings), stop)


def run_score(app: App, settings: Settings, stop: threading.Event) -> None:
    from headrace.score.run import ScorePlace, score_until

    score_until(app, ScorePlace(broker_of(settings), settings.store, settings.state), stop)


def run_connect(app: App, settings: Settings, stop: threading.Event) -> None:
    from headrace.capture.run import capture_until

    if is_captured(app):
        capture_until(app, broker_of(settings), settings.state, stop)
    else:
        stop.wait()


def is_captured(app: App) -> bool:
    """Whether there is a table whose changes we capture ourselves."""
    return any(isinstance(stream, Changes) and stream.source is not None for stream in app.streams)


def require_capturable(app: App) -> None:
    """Refuse what is not set up to be captured before anything starts."""
    if is_captured(app):
        from headrace.capture import run as capturing

        capturing.require_capturable(app)


def run_sink(app: App, settings: Settings, stop: threading.Event) -> None:
    from headrace.sink.run import sink_until

    sink_until(app, sink_place(settings), stop)


def run_bridge(app: App, settings: Settings, stop: threading.Event) -> None:
    from headrace.bridge.run import bridge_until

    bridge_until(app, broker_of(settings), stop)


def run_outbox(app: App, settings: Settings, stop: threading.Event) -> None:
    from headrace.outbox.run import relay_all

    relay_all(app, broker_of(settings), stop)


def sink_place(settings: Settings) -> "SinkPlace":
    """What sinks read, and whom they may reach."""
    from headrace.sink.writer import SinkPlace
    from headrace.watch.addresses import networks_of

    return SinkPlace(broker_of(settings), networks_of(settings.webhook_allow), settings.webhook_ca)


def run_watch(started_as: str, app: App, settings: Settings, stop: threading.Event) -> None:
    """Watch an app; what it was started as stands in the commands that alerts name."""
    from headrace.log.produce import Producer
    from headrace.log.progress import report
    from headrace.watch.addresses import networks_of
    from headrace.watch.judged import Judged
    from headrace.watch.outage_values import OutageValues
    from headrace.watch.quality import Quality
    from headrace.watch.run import WatchPlace, watch_until

    place = WatchPlace(
        door_of(settings),
        broker_of(settings),
        started_as,
        settings.webhook,
        networks_of(settings.webhook_allow),
        settings.webhook_ca,
        settings.alerts_every_s,
        otlp_of(settings),
        settings.otlp_every_s,
    )
    quality, outages, broker = Quality(app.models), OutageValues(app, settings.state), broker_of(settings)
    with quality.followed(broker), outages.followed(broker), Producer(broker) as producer:
        judged = Judged(app.models, quality, settings.state, partial(report, producer))
        watch_until(app, place, stop, more=[outages, quality, judged])


def run_retrain(started_as: str, app: App, settings: Settings, stop: threading.Event) -> None:
    """Train models anew when they are due, or an alert they wait for fires."""
    from headrace.cli.retraining import retrain_until
    from headrace.log.follow import Follower
    from headrace.log.retries import retry_until
    from headrace.watch.board import TOPIC, read_board

    require_known_reasons(started_as, app)
    board = retry_until(partial(read_board, broker_of(settings)), stop, "Retraining")
    if board is None:
        return
    with Follower(broker_of(settings), [TOPIC], board.apply, patient=True):
        retrain_until(started_as, app, broker_of(settings), settings, board.firing, stop)


def require_learners(app: App) -> None:
    """Refuse what cannot learn before anything starts."""
    from headrace.score.learner import learner_of

    for model in app.models:
        if model.learn is not None:
            learner_of(model)


def require_answerable(app: App) -> None:
    """Refuse a saved query that could not be answered before anything starts."""
    from headrace.cli.lake import tables_of
    from headrace.sql import planned

    if app.queries:
        planned.require_answerable(app, tables_of(app))


def otlp_of(settings: Settings) -> "Endpoint | None":
    """Where numbers and spans are pushed to, if anywhere."""
    from headrace.watch.otlp.endpoint import endpoint_of

    return endpoint_of(settings.otlp, os.environ) if settings.otlp else None


def require_sinkable(app: App, settings: Settings) -> None:
    """Refuse a sink whose driver is missing before anything starts."""
    from headrace.sink.run import writer_of

    for sink in app.sinks:
        writer_of(sink, sink_place(settings)).close()


def require_bridgeable(app: App) -> None:
    """Refuse another log whose driver is missing before anything starts."""
    from headrace.bridge.run import bridged, readers_of

    for stream in bridged(app):
        readers_of(stream)


def require_relayable(app: App) -> None:
    """Refuse an outbox whose driver is missing before anything starts."""
    if app.outboxes:
        table_of(app.outboxes[0].url, app.outboxes[0].table)


def table_of(url: str, name: str) -> "Table":
    """The table of an outbox."""
    try:
        from headrace.outbox.table import Table
    except ModuleNotFoundError as missing:
        raise BadSetting(f"The outbox needs {missing.name}. Install it: pip install 'headrace[postgres]'.") from missing
    return Table(url, name)


def require_tellable(settings: Settings) -> None:
    """Refuse a webhook, or a receiver, that is none before anything starts."""
    from headrace.watch.addresses import networks_of, require_https

    networks_of(settings.webhook_allow)
    if settings.webhook:
        require_https(settings.webhook)
    otlp_of(settings)


def require_known_reasons(file: str, app: App) -> None:
    """Refuse an alert that no model can wait for: one with a slip of the pen would never fire."""
    from headrace.watch.defaults import alerts_of

    known = [alert.name for alert in alerts_of(app, file)]
    for model in app.models:
        for name in () if model.retrain is None else model.retrain.when:
            if name not in known:
                raise BadSetting(
                    f"Model {model.name!r}: retrain= waits for the alert {name!r}, and there is none. "
                    f"There is {', '.join(map(repr, known))}."
                )


RUNS: Mapping[str, Run] = {
    "stream": run_stream,
    "lake": run_lake,
    "apply": run_apply,
    "check": run_check,
    "score": run_score,
    "sink": run_sink,
    "operate": run_operate,
    "connect": run_connect,
    "bridge": run_bridge,
    "outbox": run_outbox,
}
# What these start or name has to name the app as it was.
NAMED_RUNS = {"serve": run_serve, "watch": run_watch, "retrain": run_retrain}


@click.command()
@click.argument("app")
@click.argument("part", type=click.Choice((*RUNS, *NAMED_RUNS)))
@click.option("--worker", type=int, hidden=True)  # which of the workers this is; told by who starts them
@settings_options
def run(app: str, part: str, **flags: Any) -> None:
    """Run one part of APP alone; `up` starts those that an app needs."""
    from headrace.cli.ownership import ownership

    settings = settings_of(flags)
    configure_logging()
    if (opened := make_private_folder(settings.state)) is not None:
        LOGGER.warning("%s", opened)
    stop = stop_on_signals()
    if settings.limit_s is not None:
        threading.Timer(settings.limit_s, stop.set).start()
    runs = dict(RUNS) | {name: partial(run_it, app) for name, run_it in NAMED_RUNS.items()}
    declared = load_app(app)
    with ownership(declared, settings, part, stop):
        runs[part](declared, settings, stop)
