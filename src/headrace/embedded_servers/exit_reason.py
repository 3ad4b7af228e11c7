"""Why a process ended, in one sentence: the signal that killed it, or the last error of its log without a traceback."""

import re
import signal
from collections.abc import Iterator

MAX_LENGTH = 300
_TRACEBACK_HEADER = "Traceback (most recent call last):"
_COMMAND_ERROR = re.compile(r"Error: (?P<said>.+)")  # how a Headrace command ends
_EXCEPTION = re.compile(r"(?:[A-Za-z_]\w*\.)*(?P<name>[A-Z]\w*)(?:: ?(?P<said>.*))?")
_JAVA_CAUSE = re.compile(
    r"(?:Caused by: |: |Exception in thread \"[^\"]*\" )(?P<cause>(?:[a-z_]\w*\.)+[A-Z][\w$]*(?:: .*)?)"
)
# A timestamp, a level, the logger of Python or Spark, and the message.
_TIMESTAMP, _MESSAGE = r"\[?\d[\d/:.,T \-+Z]*\]? *\[?", r"\]? +(?:[\w.$]+: )?(?P<said>.+)"
_ERROR_LINE = re.compile(f"{_TIMESTAMP}(?:ERROR|CRITICAL|FATAL){_MESSAGE}")
_WARNING_LINE = re.compile(f"{_TIMESTAMP}(?:WARNING|WARN){_MESSAGE}")
_URL_CREDENTIALS = re.compile(r"(?<=://)[^/\s:@]*:[^/\s@]+(?=@)")


def exit_reason(output: str, exit_code: int | None) -> str:
    """Why a process ended, from its output and its exit code.

    >>> exit_reason("", -9)
    'killed by signal 9 (SIGKILL)'
    >>> exit_reason("Traceback (most recent call last):\\n  File ...\\nValueError: no such topic\\n", 1)
    'ValueError: no such topic'
    >>> exit_reason("2026-01-01 12:00:00 ERROR headrace.lake: The disk is full\\n", 1)
    'The disk is full'
    >>> exit_reason("", 3), exit_reason("no such topic\\n", 3)
    ('exit code 3', 'exit code 3; its log ends with: no such topic')
    """
    if exit_code is not None and exit_code < 0:
        return f"killed by signal {-exit_code}{_signal_name(-exit_code)}"
    lines = output.splitlines()
    if exit_code == 0:
        warning_messages = [line_match["said"] for line in lines if (line_match := _WARNING_LINE.match(line))]
        return _to_sentence(
            f"it ended by itself: {warning_messages[-1]}" if warning_messages else "it ended by itself (exit code 0)"
        )
    return _to_sentence(_last_error(lines) or _last_line(lines, exit_code))


def first_sentence(text: str) -> str:
    """The first line of an error, without passwords and shortened."""
    return _to_sentence(text.partition("\n")[0])


def _signal_name(number: int) -> str:
    try:
        return f" ({signal.Signals(number).name})"
    except ValueError:  # a real-time signal
        return ""


def _to_sentence(text: str) -> str:
    masked_text = _URL_CREDENTIALS.sub("…", " ".join(text.split()))
    return masked_text if len(masked_text) <= MAX_LENGTH else f"{masked_text[: MAX_LENGTH - 1]}…"


def _last_line(lines: list[str], exit_code: int | None) -> str:
    last = next((line for line in reversed(lines) if line.strip()), "")
    return f"exit code {exit_code}; its log ends with: {last}" if last else f"exit code {exit_code}"


def _last_error(lines: list[str]) -> str | None:
    """The last error in a log; the exception of a traceback rather than the line that announces it."""
    return next(_errors_newest_first(lines), None)


def _errors_newest_first(lines: list[str]) -> Iterator[str]:
    end = len(lines)
    for number in reversed(range(len(lines))):
        line = lines[number]
        if line.strip() == _TRACEBACK_HEADER:
            if exception_text := _parse_exception(lines[number + 1 : end]):
                yield exception_text
            end = number
        elif (line_match := _COMMAND_ERROR.fullmatch(line) or _ERROR_LINE.match(line)) and not _has_traceback(
            lines, number
        ):
            yield line_match["said"]


def _has_traceback(lines: list[str], number: int) -> bool:
    """Whether a line only announces a traceback, whose exception is more specific."""
    return number + 1 < len(lines) and lines[number + 1].strip() == _TRACEBACK_HEADER


def _parse_exception(lines: list[str]) -> str | None:
    """The exception that ends a traceback; of one from Java, the Java message."""
    for number, line in enumerate(lines):
        if line[:1].isspace() or not line:
            continue
        line_match = _EXCEPTION.fullmatch(line)
        if line_match is None:
            return None
        if line_match["name"] == "Py4JJavaError":
            return _java_cause(lines[number + 1 :]) or line
        return f"{line_match['name']}: {line_match['said']}" if line_match["said"] else line_match["name"]
    return None


def _java_cause(lines: list[str]) -> str | None:
    """The innermost cause of a Java exception."""
    causes = [line_match["cause"] for line in lines if (line_match := _JAVA_CAUSE.match(line))]
    return causes[-1] if causes else None
