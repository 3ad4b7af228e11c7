"""python -m headrace.sql.worker_main: the process that runs a server's queries, one after the other.

stdin    setup │ rows of a live table … query │ rows … query │ …   (from the server: trusted)
stdout   ready │ result or refusal            │ result       │ …   (untrusted bytes to the server)

It has a lower priority than the server, is killed first if memory runs out, cannot write files, and ends with stdin.
"""

import os
import resource
import signal
import sys
import traceback
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from headrace.sql.duckdb_connection import MEMORY_LIMIT_MB
from headrace.sql.engine import SqlEngine
from headrace.sql.errors import QueryMemoryError, SqlRefused
from headrace.sql.worker_messages import (
    ANSWERED,
    FAILED,
    READY,
    REFUSED,
    LiveRows,
    LiveRowsMessage,
    SqlRequest,
    decode_message,
    read_frame,
    write_frame,
)

NICENESS = 10
OOM_SCORE_ADJUSTMENT = "1000"
UNTRACKED_MEMORY_MB = 512  # memory that DuckDB does not track: long texts, Arrow, a result being written


def main() -> None:
    """Run queries until stdin ends."""
    request_stream, reply_stream = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # prints must not be read as messages
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server's Ctrl-C: the server ends this process itself
    lower_priority()
    engine = SqlEngine(*_read_message(request_stream))
    limit_resources()
    write_frame(reply_stream, READY)
    serve_requests(engine, request_stream, reply_stream)


def serve_requests(engine: SqlEngine, request_stream: IO[bytes], reply_stream: IO[bytes]) -> None:
    """Run query after query, each with the rows that came before it."""
    live_rows: dict[str, list[Any] | str] = {}
    while (message := _read_message(request_stream)) is not None:
        if isinstance(message, SqlRequest):
            write_frame(reply_stream, _answer_request(engine, message, live_rows))
            live_rows = {}
        else:
            _add_live_rows(live_rows, message)


def _add_live_rows(live_rows: dict[str, list[Any] | str], message: LiveRowsMessage) -> None:
    view_rows = live_rows.setdefault(message.view, [])
    if isinstance(message.rows, str):
        live_rows[message.view] = message.rows
    elif isinstance(view_rows, list):
        view_rows.extend(message.rows)


def _answer_request(engine: SqlEngine, request: SqlRequest, live_rows: Mapping[str, LiveRows | str]) -> bytes:
    try:
        return ANSWERED + engine.run_query(request, live_rows)
    except SqlRefused as error:
        return REFUSED + str(error).encode()
    except MemoryError:
        return REFUSED + str(QueryMemoryError()).encode()
    except Exception:  # noqa: BLE001  # sent to the server, which logs it
        return FAILED + traceback.format_exc().encode()


def _read_message(request_stream: IO[bytes]) -> Any:
    frame = read_frame(request_stream)
    return None if frame is None else decode_message(frame)


def lower_priority() -> None:
    """Take about a tenth of the server's share of a contended core."""
    os.nice(NICENESS)
    with suppress(OSError):  # not on every system
        Path("/proc/self/oom_score_adj").write_text(OOM_SCORE_ADJUSTMENT)


def limit_resources() -> None:
    """Forbid writing files, and limit memory beyond what DuckDB tracks."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(OSError, StopIteration):  # only Linux reports the current memory
        lines = Path("/proc/self/status").read_text().splitlines()
        current_kb = next(int(line.split()[1]) for line in lines if line.startswith("VmData:"))
        limit_bytes = (current_kb << 10) + ((MEMORY_LIMIT_MB + UNTRACKED_MEMORY_MB) << 20)
        resource.setrlimit(resource.RLIMIT_DATA, (limit_bytes, limit_bytes))


if __name__ == "__main__":
    main()
