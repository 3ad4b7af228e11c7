"""What other programs, scripts and old data see of Headrace, each as one JSON document."""

import ast
import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import click

import headrace as hr
from headrace.cli import COMMANDS, main
from headrace.declare.app import load_app
from headrace.declare.metric_catalog import METRIC_CATALOG
from headrace.declare.name_collisions import list_declarations
from headrace.kafka.headers import RECORD_HEADERS
from headrace.kafka.status.reports.progress_report import TAGS
from headrace.kafka.status.reports.report_types import REPORT_TYPES
from headrace.kafka.status.reports.untagged_reports import KIND_BY_FIELD

ROOT = Path(__file__).parents[2]
APPS = (
    "examples/fraud/app.py",
    "tests/e2e/everything_app.py",
    "tests/e2e/derived_app.py",
    "tests/e2e/published_app.py",
    "tests/e2e/scored_app.py",
)
READ = (
    "headrace.client.sync_client",
    "headrace.client.async_client",
    "headrace.client.protocol",
    "headrace.testing",
)
SOURCES, MARK = ROOT / "src" / "headrace", re.compile(r"headrace\.[a-z][a-z-]*")
WORDS = {"description", "summary", "title", "operationId", "version", "example"}
PLAIN = (bool, int, float, str, type(None), tuple)


def python_names() -> dict[str, Any]:
    """`hr.*`: each name, how it is called, and what its objects have."""
    return {name: _described(getattr(hr, name)) for name in sorted(hr.__all__)} | {
        f"testing.{name}": _described(getattr(hr.testing, name)) for name in hr.testing.__all__
    }


def _described(thing: Any) -> Any:
    if thing is hr.View:
        return {}  # made by hr.features alone
    if inspect.isclass(thing):
        return {"call": _parameters(thing), "members": dict(_members(thing))}
    return {"call": _parameters(thing)} if callable(thing) else {}


def _parameters(thing: Any) -> list[str]:
    try:
        signature = inspect.signature(thing)
    except (ValueError, TypeError):
        return []
    return [_parameter(one) for one in signature.parameters.values()]


def _parameter(one: inspect.Parameter) -> str:
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}.get(one.kind, "")
    if stars:
        return stars  # its name is not visible to callers
    if one.default is one.empty:
        return one.name
    return f"{one.name}={one.default!r}" if isinstance(one.default, PLAIN) else f"{one.name}=…"


def _members(kind: type) -> Iterator[tuple[str, list[str]]]:
    """Public methods; of what clients and tests read, properties and fields too; of exceptions nothing."""
    if issubclass(kind, BaseException):
        return
    is_read = kind.__module__.startswith(READ)
    if is_dataclass(kind) and is_read:
        yield from ((one.name, []) for one in fields(kind) if not one.name.startswith("_"))
    for name in dir(kind):
        member = inspect.getattr_static(kind, name)
        if not name.startswith("_") and (inspect.isfunction(member) or (is_read and isinstance(member, property))):
            yield name, _parameters(member)


def command_line() -> dict[str, Any]:
    """Every command with its arguments and options: names, values and variables."""
    context = click.Context(main)
    commands = {name: main.get_command(context, name) for name in COMMANDS}
    return {name: _command(command) for name, command in commands.items() if command is not None}


def _command(command: click.Command) -> dict[str, Any]:
    inner = command.commands if isinstance(command, click.Group) else {}
    return {
        "takes": [_option(option) for option in command.params],
        **{name: _command(one) for name, one in sorted(inner.items())},
    }


def _option(option: click.Parameter) -> dict[str, Any]:
    choices = list(option.type.choices) if isinstance(option.type, click.Choice) else []
    default = option.default if isinstance(option.default, PLAIN) else "…"
    is_flag = isinstance(option, click.Option) and option.is_flag
    return {
        "names": [*option.opts, *option.secondary_opts],
        "variable": option.envvar,
        "choices": choices,
        "default": default,
        "required": option.required,
        "flag": is_flag,
        "several": option.multiple if isinstance(option, click.Option) else option.nargs,
    }


def metrics() -> dict[str, Any]:
    """Every metric with its labels, its unit and the bounds of its buckets."""
    return {
        name: {"labels": one.labels, "unit": one.unit, "bounds": one.bucket_bounds}
        for name, one in METRIC_CATALOG.items()
    }


def names_outside() -> dict[str, Any]:
    """Topics, tables, queries, consumer groups, checkpoints and files of some apps."""
    return {
        app: {
            f"{one.kind} {one.name}": sorted(f"{resource.kind}: {resource.name}" for resource in one.resources)
            for one in list_declarations(load_app(str(ROOT / app)))
        }
        for app in APPS
    }


def reports() -> dict[str, Any]:
    """The fields of each report on the progress topic, by the field that only its kind has."""
    return {tag: [*TAGS, *(one.name for one in fields(REPORT_TYPES[kind]))] for tag, kind in KIND_BY_FIELD.items()}


def marks() -> dict[str, Any]:
    """Names of record headers, and of topics that belong to no app: modules' constants that begin with `headrace.`."""
    found = {text for file in SOURCES.rglob("*.py") for text in _marks_of(ast.parse(file.read_text()))}
    headers = {header.name for header in RECORD_HEADERS if MARK.fullmatch(header.name)}
    return {"marks": sorted(found | headers)}


def _marks_of(module: ast.Module) -> Iterator[str]:
    for line in module.body:
        if isinstance(line, ast.Assign) and not isinstance(line.value, ast.Call):
            texts = (one.value for one in ast.walk(line.value) if isinstance(one, ast.Constant))
            yield from (text for text in texts if isinstance(text, str) and MARK.fullmatch(text))


def structure_of_http(document: Any) -> Any:
    """An OpenAPI document without its texts."""
    if isinstance(document, list):
        return [structure_of_http(one) for one in document]
    if not isinstance(document, dict):
        return document
    return {
        name: structure_of_http(value)
        for name, value in document.items()
        if not (name in WORDS and isinstance(value, str))
    }


SNAPSHOTS: dict[str, Callable[[], dict[str, Any]]] = {
    "python": python_names,
    "command_line": command_line,
    "metrics": metrics,
    "names": names_outside,
    "reports": reports,
    "marks": marks,
}
