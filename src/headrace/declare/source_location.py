"""Where in the user's code something is declared: what a refusal names."""

import inspect
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

_PACKAGE = __name__.rpartition(".")[0]


def users_frame() -> FrameType | None:
    """The innermost frame outside of `headrace.declare`: the user's, whose declaration is being made."""
    frame = inspect.currentframe()
    while frame is not None and f"{frame.f_globals.get('__name__', '')}.".startswith(f"{_PACKAGE}."):
        frame = frame.f_back
    return frame


@dataclass(frozen=True)
class SourceLocation:
    """A file and a line in it; `path` is the whole path of the file."""

    file: str
    line: int
    path: str = field(default="", compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


def locate_caller(frames_up: int = 1) -> SourceLocation:
    """Where the caller's caller, so many frames up, stands."""
    frame = inspect.currentframe()  # not inspect.stack(), which looks through all modules for each frame
    for _ in range(frames_up + 1):
        frame = frame and frame.f_back
    return _location_of_frame(frame)


def locate_declaration() -> SourceLocation:
    """The line outside of `headrace.declare` whose declaration is being made."""
    return _location_of_frame(users_frame())


def _location_of_frame(frame: FrameType | None) -> SourceLocation:
    if frame is None:
        return SourceLocation("?", 0)
    file = frame.f_code.co_filename
    return SourceLocation(Path(file).name, frame.f_lineno, file)
