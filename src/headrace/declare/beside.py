"""Files that an app names lie beside it."""

import inspect
from pathlib import Path

_ROOM = __name__.rpartition(".")[0]


def beside_the_app(path: str) -> Path:
    """A path relative to the file whose declaration names it, or to the working folder where there is none."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").rpartition(".")[0] == _ROOM:
        frame = frame.f_back
    file = frame.f_globals.get("__file__") if frame is not None else None
    return (Path(file).parent if file else Path()).resolve() / path
