"""The part that retrains models that are due, each in its own process, which stops with the part."""

import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from headrace.declare.app import App
from headrace.embedded_servers.child_process import ChildProcess
from headrace.embedded_servers.process_priority import lower_priority
from headrace.models.versions.version_store import VersionStore
from headrace.monitoring.retraining.schedule import RetrainingSchedule
from headrace.monitoring.retraining.training_attempts import last_attempt_us, record_attempt
from headrace.runtime.configuration.part_arguments import setting_flags
from headrace.runtime.settings import Settings

LOGGER = logging.getLogger("headrace.retrain")
POLL_SECONDS = 5.0
STOP_SECONDS = 10.0

FiringAlerts = Callable[[], Mapping[str, int]]


def run_retraining(
    app_path: str, app: App, settings: Settings, firing_alerts: FiringAlerts, stop: threading.Event
) -> None:
    """Retrain models that are due, one at a time, until stopped; `firing_alerts` has alerts and since when they fire.

    Attempts are read from the models' folders, so that of several copies of this part only one retrains.
    """
    started_us = time.time_ns() // 1000
    rules = {model.name: model.retrain for model in app.models if model.retrain is not None}
    while not stop.wait(POLL_SECONDS):
        attempts_us = {name: last_attempt_us(VersionStore(settings.state, name), started_us) for name in rules}
        for model, reason in list(
            RetrainingSchedule(rules, attempts_us).due_models(time.time_ns() // 1000, firing_alerts()).items()
        )[:1]:
            LOGGER.info("Retraining %s: %s", model, reason)
            command = retrain_command(app_path, model, reason, settings)
            _run_training(
                [*command, "--tried", str(attempts_us[model])], settings.state / "logs" / f"retrain-{model}.log", stop
            )
            if not stop.is_set():  # a stopped attempt is retried
                record_attempt(VersionStore(settings.state, model))


def retrain_command(app_path: str, model: str, reason: str, settings: Settings) -> list[str]:
    """The command that retrains a model, from the lake, or from the log if there is no lake."""
    source = ("lake",) if settings.lake else ("lake", "broker")
    flags = setting_flags(settings, "state", *source, "spark")
    return [sys.executable, "-m", "headrace", "retrain", app_path, model, "--why", reason, *flags]


def _run_training(command: list[str], log_file: Path, stop: threading.Event) -> None:
    log_file.parent.mkdir(parents=True, exist_ok=True)
    own_log_file = log_file.with_suffix(
        f".{os.getpid()}.log"
    )  # each copy of this part writes its own file until the training has ended
    child = ChildProcess(command, folder=Path.cwd(), output=own_log_file)
    child.start()
    lower_priority(child.pid)  # events and requests come first
    while child.is_alive() and not stop.wait(0.5):
        pass
    child.stop(STOP_SECONDS)
    output_lines = own_log_file.read_text(errors="replace").strip().splitlines()
    own_log_file.replace(log_file)
    LOGGER.info("%s", output_lines[-1] if output_lines else "Retraining ended without output")
