"""Unexpected errors: one sentence for the terminal, the stack trace for a file.

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

from headrace.runtime.configuration.state_folder import recorded_state_folder
from headrace.spark.session.error_summary import summarize_spark_error

DEBUG_VARIABLE = "HEADRACE_DEBUG"
PACKAGE_FOLDER = Path(__file__).parents[1]


def command_log_file(context: click.Context) -> Path | None:
    """The log file for a command's traces; None if its parent process redirects its stderr to a file."""
    root_context = context.find_root()
    if root_context.invoked_subcommand in {None, "run"}:
        return None
    folder = recorded_state_folder(root_context) / "logs"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        folder = Path(tempfile.gettempdir())
    return folder / f"command-{root_context.invoked_subcommand}.log"


def to_click_exception(error: Exception, context: click.Context) -> click.ClickException:
    """The final error message of a command; writes the trace to its log file, or to stderr if that is a file."""
    summary = summarize_spark_error(error).rstrip(".") + _user_code_location(error)
    trace, log_file = "".join(traceback.format_exception(error)), command_log_file(context)
    if log_file is None:
        sys.stderr.write(trace)
        return click.ClickException(f"{summary}.")
    try:
        with log_file.open("a") as file:
            file.write(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} {context.find_root().invoked_subcommand}\n{trace}\n")
    except OSError as write_error:
        return click.ClickException(f"{summary}. The trace could not be written to {log_file}: {write_error}.")
    return click.ClickException(f"{summary}. The trace is in {log_file}, or set {DEBUG_VARIABLE}=1 to see it here.")


def is_debugging() -> bool:
    """Whether the user wants traces on the terminal."""
    return os.environ.get(DEBUG_VARIABLE, "") not in {"", "0"}


def _user_code_location(error: Exception) -> str:
    """The innermost line of the user's own code in an error's trace, if any."""
    locations = [f" ({file}:{line})" for file, line in _frames(error.__traceback__) if _is_user_code(file)]
    return "" if isinstance(error, SyntaxError) or not locations else locations[-1]


def _frames(trace: TracebackType | None) -> list[tuple[str, int]]:
    return [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(trace)]


def _is_user_code(file: str) -> bool:
    libraries = {Path(sys.prefix), Path(sys.base_prefix), PACKAGE_FOLDER}
    return not file.startswith("<") and not any(Path(file).is_relative_to(library) for library in libraries)
