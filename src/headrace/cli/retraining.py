"""The part that trains models anew when they are due, each in a process of its own that ends with it."""

import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from headrace.cli.settings import Settings
from headrace.declare.app import App
from headrace.evaluate.attempts import note_tried, tried_us
from headrace.evaluate.schedule import Schedule
from headrace.local.child import Child
from headrace.local.polite import give_way
from headrace.score.versions import Versions

LOGGER = logging.getLogger("headrace.retrain")
LOOK_SECONDS = 5.0
STOP_SECONDS = 10.0

Firing = Callable[[], Mapping[str, int]]


def retrain_until(file: str, app: App, broker: str, settings: Settings, firing: Firing, stop: threading.Event) -> None:
    """Train whoever is due, one after another, until stopped; `firing` tells which alerts fire, and since when.

    What was tried is read from the models' folders, so that of several who look one trains.
    """
    began_us = time.time_ns() // 1000
    rules = {model.name: model.retrain for model in app.models if model.retrain is not None}
    while not stop.wait(LOOK_SECONDS):
        tried = {name: tried_us(Versions(settings.state, name), began_us) for name in rules}
        for model, why in list(Schedule(rules, tried).due(time.time_ns() // 1000, firing()).items())[:1]:
            LOGGER.info("training %s anew: %s", model, why)
            command = command_of(file, model, why, broker, settings)
            _train([*command, "--tried", str(tried[model])], settings.state / "logs" / f"retrain-{model}.log", stop)
            if not stop.is_set():  # one that was stopped is tried again
                note_tried(Versions(settings.state, model))


def command_of(file: str, model: str, why: str, broker: str, settings: Settings) -> list[str]:
    """How a model is trained anew: from the lake, or from the log where there is none."""
    source = ["--lake", str(settings.lake)] if settings.lake else ["--lake", "off", "--broker", broker]
    spark = ["--spark", settings.spark] if settings.spark else []
    words = ["retrain", file, model, "--why", why, "--state", str(settings.state), *source, *spark]
    return [sys.executable, "-m", "headrace", *words]


def _train(command: list[str], log: Path, stop: threading.Event) -> None:
    log.parent.mkdir(parents=True, exist_ok=True)
    own = log.with_suffix(f".{os.getpid()}.log")  # of several who look each has its own, until it has ended
    child = Child(command, folder=Path.cwd(), output=own)
    child.start()
    give_way(child.pid)  # events and requests come first
    while child.alive() and not stop.wait(0.5):
        pass
    child.stop(STOP_SECONDS)
    said = own.read_text(errors="replace").strip().splitlines()
    own.replace(log)
    LOGGER.info("%s", said[-1] if said else "it said nothing")
