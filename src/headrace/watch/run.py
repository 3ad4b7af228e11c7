"""The watching part of an app: every few seconds a look at all that is counted, until it is stopped."""

import logging
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from headrace.declare.app import App
from headrace.log.follow import Follower
from headrace.log.produce import Producer
from headrace.log.progress import WatchProgress, ensure_progress_topic, report
from headrace.log.retries import retry_until
from headrace.serve.door import Door
from headrace.watch.addresses import Network
from headrace.watch.board import TOPIC, Board, read_board, write_state
from headrace.watch.defaults import alerts_of
from headrace.watch.engine import Engine
from headrace.watch.otlp.endpoint import Endpoint
from headrace.watch.otlp.push import Numbers, Push, Spans
from headrace.watch.scrape import ServerValues
from headrace.watch.tell import Notification
from headrace.watch.values import Together, Values
from headrace.watch.webhook import Webhook

LOOK_SECONDS = 5.0
PUSH_SECONDS = 10.0
LOGGER = logging.getLogger("headrace.alerts")


@dataclass(frozen=True)
class WatchPlace:
    """What is watched, where its log is, as what the app was started, who is told, and where numbers are pushed."""

    door: Door
    broker: str
    app: str
    webhook: str | None = field(default=None, repr=False)
    webhook_allow: tuple[Network, ...] = ()
    webhook_ca: Path | None = None
    every_seconds: float = LOOK_SECONDS
    otlp: Endpoint | None = None
    otlp_every_seconds: float = PUSH_SECONDS


def watch_until(app: App, place: WatchPlace, stop: threading.Event, more: Sequence[Values] = ()) -> None:
    """Watch an app until `stop` is set, by what others know and by its server's numbers."""
    alerts = alerts_of(app, place.app)
    webhook = Webhook(place.webhook, place.webhook_allow, place.webhook_ca) if place.webhook else None
    board = retry_until(partial(_read_board, place.broker), stop, "Alerts")
    if board is None:
        return
    kept = {name: one.state for name, one in board.kept.items()}
    with ExitStack() as open_:
        open_.enter_context(Follower(place.broker, [TOPIC], board.apply, patient=True))
        producer = open_.enter_context(Producer(place.broker))
        if webhook is not None:
            open_.enter_context(webhook)
        push = open_.enter_context(_push(app, place.otlp, place)) if place.otlp is not None else None
        engine = Engine(alerts, kept, lambda *word: write_state(producer, *word))
        watch = Watch(engine, Together([*more, ServerValues(place.door, alerts)]), board, webhook)
        while not stop.wait(place.every_seconds):
            watch.look(time.time_ns() // 1000)
            report(producer, watch.progress(app.name, {} if push is None else push.outcomes()))


def _read_board(broker: str) -> Board:
    ensure_progress_topic(broker)
    return read_board(broker)


def _push(app: App, endpoint: Endpoint, place: WatchPlace) -> Push:
    return Push(endpoint, [Numbers(app, place.door), Spans(app, place.broker)], place.otlp_every_seconds)


class Watch:
    """One look after the other: what changed goes to the log and the webhook."""

    def __init__(self, engine: Engine, values: Values, board: Board, webhook: Webhook | None) -> None:
        self.engine, self._values, self._board, self._webhook = engine, values, board, webhook
        self._logged: Counter[str] = Counter()

    def look(self, now_us: int) -> None:
        if self._webhook is not None:
            self.engine.told(self._webhook.done())
        notifications = self.engine.look(self._values, self._board.silences, now_us)
        for notification in notifications:
            self._tell(notification)

    def progress(self, app: str, pushes: dict[str, dict[str, int]] | None = None) -> WatchProgress:
        """What was done so far."""
        told: Mapping[str, Counter[str]] = {"log": self._logged}
        if self._webhook is not None:
            told = {**told, "webhook": self._webhook.outcomes.copy()}
        notifications = {sink: dict(outcomes) for sink, outcomes in told.items()}
        return WatchProgress(app, time.time_ns() // 1000, self.engine.firing, notifications, pushes or {})

    def _tell(self, notification: Notification) -> None:
        if self._webhook is not None and not self._webhook.tell(notification):
            self.engine.untold(notification)
            return
        for change in notification.changes:
            LOGGER.warning("%s", change.text)
        self._logged["delivered"] += 1
        if self._webhook is None:
            self.engine.told([notification])
