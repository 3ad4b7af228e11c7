"""Paths relative to the file of the app that names them."""

from pathlib import Path

from headrace.declare.source_location import users_frame


def resolve_app_path(path: str) -> Path:
    """A path relative to the file whose declaration names it, or to the working folder if there is no such file."""
    frame = users_frame()
    file = frame.f_globals.get("__file__") if frame is not None else None
    return (Path(file).parent if file else Path()).resolve() / path
