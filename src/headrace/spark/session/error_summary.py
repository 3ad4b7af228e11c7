"""One sentence for an exception of Spark, Java or Py4J: its root cause, without the plan and the stack trace.

[STREAM_FAILED] Query [id = …] terminated with exception: org.apache.kafka…TimeoutException: Timed out SQLSTATE: …
                                                                          └───────────┬───────────┘
                                                                   TimeoutException: Timed out
"""

import re
from collections.abc import Iterator
from types import TracebackType

from headrace.errors import HeadraceError

MAX_LENGTH = 300
JAVA_IS_GONE = "Spark's Java process has ended."
WORKER_DID_NOT_CONNECT = "Python worker failed to connect back"

_TRAILERS = ("\n=== Streaming Query ===", "\n\nJVM stacktrace:", "\nDriver stacktrace:", "\n== SQL")
_WRAPPERS = (
    re.compile(r"An error occurred while calling \S+\.(?: Trace:)?\s*:?\s*"),
    re.compile(r"\[STREAM_FAILED\] Query .*? terminated with exception:\s*", re.DOTALL),
    re.compile(r"\S*(?:SparkException|StreamingQueryException|ExecutionException|CompletionException):\s*"),
    re.compile(r"Job aborted due to stage failure: Task .*?: Lost task [^\n]*?\)\s*(?:\([^)\n]*\))?:\s*", re.DOTALL),
    re.compile(r"Writing job aborted\.?\s*"),
)
_SQL_STATE = re.compile(r";?\s*SQLSTATE: [0-9A-Z]{5};?")
_ADVICE = re.compile(r"\s*If necessary set \"?spark\.sql\.ansi\.enabled.*")
_PACKAGE = re.compile(r"\b(?:[a-z][\w]*\.)+(?=[A-Z]\w*(?:Exception|Error)\b)")
_TRACEBACK = "Traceback (most recent call last)"
_CAUSED_BY = "Caused by: "


def summarize_spark_error(error: BaseException) -> str:
    """The root cause of an exception in one line of at most 300 characters."""
    if is_java_gone(error):
        return JAVA_IS_GONE
    text = _error_message(error)
    if _is_spark_error(error):
        sentence = _summarize_text(text)
    elif isinstance(error, HeadraceError):
        sentence = text
    else:
        sentence = f"{type(error).__name__}: {text}" if text else ""
    return _shorten(sentence or type(error).__name__)


def is_java_gone(error: BaseException | None) -> bool:
    """Whether an exception means that Java no longer answers: its connection is refused or broken."""
    if error is None:
        return False
    if type(error).__name__ in {"Py4JNetworkError", "Py4JClosedException"}:
        return True
    if isinstance(error, OSError) and "py4j" in _packages_in(error.__traceback__):
        return True
    return is_java_gone(error.__cause__)


def _packages_in(trace: TracebackType | None) -> Iterator[str]:
    """The top packages of the code that an exception passed through."""
    while trace is not None:
        yield str(trace.tb_frame.f_globals.get("__name__", "")).partition(".")[0]
        trace = trace.tb_next


def _is_spark_error(error: BaseException) -> bool:
    return any(error_class.__module__.partition(".")[0] in {"pyspark", "py4j"} for error_class in type(error).__mro__)


def _error_message(error: BaseException) -> str:
    """The message of an exception; Py4J requests it from Java, which may be gone by then."""
    try:
        return str(error).strip()
    except Exception:  # noqa: BLE001  # any failure of Py4J: the message is in its arguments, or there is none
        return str(error.args[0]).strip() if error.args else ""


def _summarize_text(text: str) -> str:
    for trailer in _TRAILERS:
        text = text.partition(trailer)[0]
    text = _unwrap(text)
    if _TRACEBACK in text:
        return _exception_line(text)
    lines = text.splitlines()
    headline = _clean(lines[0]) if lines else ""
    causes = [_clean(_unwrap(line.removeprefix(_CAUSED_BY))) for line in lines if line.startswith(_CAUSED_BY)]
    root = next((cause for cause in reversed(causes) if cause), "")
    return headline if not root or root in headline else f"{headline.rstrip('.')}: {root}".removeprefix(": ")


def _unwrap(text: str) -> str:
    """The message inside any number of Spark's and Py4J's wrappers."""
    while True:
        match = next(filter(None, (wrapper.match(text) for wrapper in _WRAPPERS)), None)
        if match is None:
            return text
        text = text[match.end() :]


def _exception_line(text: str) -> str:
    """The line of a Python traceback that names the exception: the one after the last indented line."""
    lines = [_SQL_STATE.sub("", line) for line in text[text.rindex(_TRACEBACK) :].splitlines()]
    lines = [line for line in lines if line.strip() and not line.startswith("\t")]
    indented = [number for number, line in enumerate(lines) if line.startswith("  ")]
    return lines[min(indented[-1] + 1, len(lines) - 1)].strip() if indented else lines[-1].strip()


def _clean(line: str) -> str:
    return _PACKAGE.sub("", _ADVICE.sub("", _SQL_STATE.sub("", line))).strip()


def _shorten(sentence: str) -> str:
    line = " ".join(sentence.split())
    return line if len(line) <= MAX_LENGTH else f"{line[: MAX_LENGTH - 2].rpartition(' ')[0]} …"
