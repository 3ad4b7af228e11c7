"""The location of a declaration in the user's code, which errors name."""

import inspect
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

_PACKAGE = __name__.rpartition(".")[0]


def users_frame() -> FrameType | None:
    """The innermost frame outside of `headrace.declare`: the user code that makes the declaration."""
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
    """The location of the caller's caller, this many frames up."""
    frame = inspect.currentframe()  # not inspect.stack(), which searches all modules for each frame
    for _ in range(frames_up + 1):
        frame = frame and frame.f_back
    return _location_of_frame(frame)


def locate_declaration() -> SourceLocation:
    """The line outside of `headrace.declare` that makes the declaration."""
    return _location_of_frame(users_frame())


def _location_of_frame(frame: FrameType | None) -> SourceLocation:
    if frame is None:
        return SourceLocation("?", 0)
    file = frame.f_code.co_filename
    return SourceLocation(Path(file).name, frame.f_lineno, file)
