"""Where in the user's code something is declared: what a refusal names."""

import inspect
from dataclasses import dataclass, field
from pathlib import Path

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
    frame = inspect.stack(context=0)[frames_up + 1]  # without lines of source, which are slow to find
    return Written(Path(frame.filename).name, frame.lineno, frame.filename)


def declaring_line() -> Written:
    """The line outside of `headrace.declare` whose declaration is being made."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").rpartition(".")[0] == _ROOM:
        frame = frame.f_back
    if frame is None:
        return Written("?", 0)
    file = frame.f_code.co_filename
    return Written(Path(file).name, frame.f_lineno, file)
