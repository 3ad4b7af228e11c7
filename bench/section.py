"""The argument of every section: a function that prints progress, and a temporary folder."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Run:
    """One run of a section."""

    quick: bool
    folder: Path
    say: Callable[[str], None]
