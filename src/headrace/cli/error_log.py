"""Errors that nobody expected: one sentence for the terminal, the trace for a file.

headrace train …   ──▶ Error: PySparkException: …. The trace is in .headrace/logs/command-train.log.
"""

import os
import sys
import tempfile
import traceback
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType

import click

from headrace.stream.error_summary import summarize_spark_error

STATE = "headrace.state"  # in the context: the folder that --state has named
USUAL_STATE = ".headrace"
DEBUG = "HEADRACE_DEBUG"
PACKAGE = Path(__file__).parents[1]


def log_of_command(context: click.Context) -> Path | None:
    """The file that takes the traces of a command; None where its own stderr is kept in a file by who started it."""
    root = context.find_root()
    if root.invoked_subcommand in {None, "run"}:
        return None
    folder = Path(root.meta.get(STATE) or USUAL_STATE) / "logs"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        folder = Path(tempfile.gettempdir())
    return folder / f"command-{root.invoked_subcommand}.log"


def unexpected(error: Exception, context: click.Context) -> click.ClickException:
    """The sentence that a command ends with; the trace is written to its log, or to stderr where that is one."""
    sentence = summarize_spark_error(error).rstrip(".") + _where(error)
    trace, log = "".join(traceback.format_exception(error)), log_of_command(context)
    if log is None:
        sys.stderr.write(trace)
        return click.ClickException(f"{sentence}.")
    try:
        with log.open("a") as file:
            file.write(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} {context.find_root().invoked_subcommand}\n{trace}\n")
    except OSError as problem:
        return click.ClickException(f"{sentence}. The trace could not be written to {log}: {problem}.")
    return click.ClickException(f"{sentence}. The trace is in {log}, or set {DEBUG}=1 to see it here.")


def is_debugging() -> bool:
    """Whether whoever asks wants to see traces on the terminal."""
    return os.environ.get(DEBUG, "") not in {"", "0"}


def _where(error: Exception) -> str:
    """The line of the user's own code that an error went through last, if any."""
    lines = [f" ({file}:{line})" for file, line in _frames(error.__traceback__) if _is_users(file)]
    return "" if isinstance(error, SyntaxError) or not lines else lines[-1]


def _frames(trace: TracebackType | None) -> list[tuple[str, int]]:
    return [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(trace)]


def _is_users(file: str) -> bool:
    libraries = {Path(sys.prefix), Path(sys.base_prefix), PACKAGE}
    return not file.startswith("<") and not any(Path(file).is_relative_to(library) for library in libraries)
