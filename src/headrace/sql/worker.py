"""python -m headrace.sql.worker: the process that answers a server's queries, one after the other.

stdin    what there is │ rows of a live table … query │ rows … query │ …   (of the server: trusted)
stdout   ready         │ answer or refusal            │ answer       │ …   (never more than bytes to the server)

It gives way to the server, is the first to go where memory runs out, can write no file, and ends with its stdin.
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

from headrace.sql.database import MEMORY_MB
from headrace.sql.engine import Engine
from headrace.sql.errors import SqlRefused, TookTooMuch
from headrace.sql.messages import ANSWERED, FAILED, READY, REFUSED, Asked, Came, Rows, read_frame, unpacked, write_frame

NICE = 10
FIRST_TO_GO = "1000"
BEYOND_MB = 512  # what DuckDB does not reckon: long texts, Arrow, an answer being written


def main() -> None:
    """Answer until stdin ends."""
    asked, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever is printed is no message
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server's Ctrl-C: it ends this process by itself
    give_way()
    engine = Engine(*_received(asked))
    limit_itself()
    write_frame(answers, READY)
    answer_on(engine, asked, answers)


def answer_on(engine: Engine, asked: IO[bytes], answers: IO[bytes]) -> None:
    """Answer query after query, each with the rows that came before it."""
    live: dict[str, list[Any] | str] = {}
    while (received := _received(asked)) is not None:
        if isinstance(received, Asked):
            write_frame(answers, _answer(engine, received, live))
            live = {}
        else:
            _take(live, received)


def _take(live: dict[str, list[Any] | str], came: Came) -> None:
    held = live.setdefault(came.view, [])
    if isinstance(came.rows, str):
        live[came.view] = came.rows
    elif isinstance(held, list):
        held.extend(came.rows)


def _answer(engine: Engine, asked: Asked, live: Mapping[str, Rows | str]) -> bytes:
    try:
        return ANSWERED + engine.answer(asked, live)
    except SqlRefused as refused:
        return REFUSED + str(refused).encode()
    except MemoryError:
        return REFUSED + str(TookTooMuch()).encode()
    except Exception:  # noqa: BLE001  # told to the server, whose log says it
        return FAILED + traceback.format_exc().encode()


def _received(asked: IO[bytes]) -> Any:
    frame = read_frame(asked)
    return None if frame is None else unpacked(frame)


def give_way() -> None:
    """Get a tenth of what the server gets of a core that both want."""
    os.nice(NICE)
    with suppress(OSError):  # not on every system
        Path("/proc/self/oom_score_adj").write_text(FIRST_TO_GO)


def limit_itself() -> None:
    """No file can be written from here on, and memory beyond what DuckDB reckons is limited as well."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(OSError, StopIteration):  # Linux alone says how much there is now
        lines = Path("/proc/self/status").read_text().splitlines()
        now_kb = next(int(line.split()[1]) for line in lines if line.startswith("VmData:"))
        most = (now_kb << 10) + ((MEMORY_MB + BEYOND_MB) << 20)
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))


if __name__ == "__main__":
    main()
