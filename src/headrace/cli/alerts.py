"""`headrace alerts ls|silence|unsilence APP`: what fires, and what is kept quiet for a while."""

import json
import time
from typing import Any

import click

from headrace.cli.grammar import verbs
from headrace.cli.settings import LOG_OPTIONS, BadSetting, log_of, options
from headrace.declare.alert import Alert
from headrace.declare.app import load_app
from headrace.declare.durations import duration_us

ACTIONS = ("ls", "silence", "unsilence")


@click.command(cls=verbs(*ACTIONS))
@click.argument("action", metavar="|".join(ACTIONS))
@click.argument("app", required=False, metavar="APP")
@click.argument("name", required=False)
@click.argument("duration", required=False)
@options(LOG_OPTIONS)
@click.option("--json", "in_json", is_flag=True, help="As JSON.")
def alerts(action: str, app: str, name: str | None, duration: str | None, **flags: Any) -> None:
    """The alerts of APP: ls, silence NAME DURATION (such as 2h), or unsilence NAME."""
    from headrace.watch.defaults import alerts_of

    declared = alerts_of(load_app(app), app)
    broker = log_of(flags)
    if action != "ls":
        _hush(broker, _known(name, declared), _until_us(action, duration))
    rows = [row for row in _rows(broker, declared) if action == "ls" or row["name"] == name]
    click.echo(json.dumps(rows) if flags["in_json"] else "\n".join(map(_line, rows)))


def _known(name: str | None, declared: tuple[Alert, ...]) -> str:
    names = [alert.name for alert in declared]
    if name is None or name not in names:
        raise BadSetting(f"There is no alert {name!r}. There is {', '.join(map(repr, names))}.")
    return name


def _until_us(action: str, duration: str | None) -> int | None:
    if action == "unsilence":
        return None
    if duration is None:
        raise BadSetting('For how long? Write headrace alerts silence APP "auc drop" 2h.')
    return time.time_ns() // 1000 + duration_us(duration, "silence")


def _hush(broker: str, name: str, until_us: int | None) -> None:
    from headrace.log.latest import ensure_latest_topic
    from headrace.log.produce import Producer
    from headrace.watch.board import TOPIC, write_silence

    ensure_latest_topic(broker, TOPIC)
    with Producer(broker) as producer:
        write_silence(producer, name, until_us)


def _rows(broker: str, declared: tuple[Alert, ...]) -> list[dict[str, Any]]:
    from headrace.watch.board import read_board
    from headrace.watch.tell import when

    board, now_us = read_board(broker), time.time_ns() // 1000
    rows = []
    for alert in declared:
        said = board.kept[alert.name].said if alert.name in board.kept else {"status": "ok", "since": None, "said": ""}
        until_us = board.silences.get(alert.name, 0)
        row: dict[str, Any] = {"name": alert.name, "severity": alert.severity, "on": alert.on.text, "run": alert.run}
        row |= {word: said[word] for word in ("status", "since", "said")}
        rows.append(row | {"silenced_until": when(until_us) if until_us > now_us else None})
    return rows


def _line(row: dict[str, Any]) -> str:
    silenced = f", silenced until {row['silenced_until']}" if row["silenced_until"] else ""
    since = f" since {row['since']}: {row['said']}" if row["since"] and row["status"] != "ok" else ""
    run = f". Run: {row['run']}" if row["status"] == "firing" and row["run"] else ""
    return f"{row['name']:<36}{row['severity']:<8}{row['status']}{since}{silenced}{run}"
