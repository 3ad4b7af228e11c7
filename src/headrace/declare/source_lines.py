"""Where in the user's code something is declared: what a refusal names."""

import inspect
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

_ROOM = __name__.rpartition(".")[0]


@dataclass(frozen=True)
class Written:
    """A file and a line in it; `path` is the whole path of the file."""

    file: str
    line: int
    path: str = field(default="", compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


def written_here(frames_up: int = 1) -> Written:
    """Where the caller's caller, so many frames up, stands."""
    frame = inspect.currentframe()  # not inspect.stack(), which looks through all modules for each frame
    for _ in range(frames_up + 1):
        frame = frame and frame.f_back
    return _line_of(frame)


def declaring_line() -> Written:
    """The line outside of `headrace.declare` whose declaration is being made."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").rpartition(".")[0] == _ROOM:
        frame = frame.f_back
    return _line_of(frame)


def _line_of(frame: FrameType | None) -> Written:
    if frame is None:
        return Written("?", 0)
    file = frame.f_code.co_filename
    return Written(Path(file).name, frame.f_lineno, file)
