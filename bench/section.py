"""What every section is given: how to tell of its progress, and a folder that goes with it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Run:
    """One run of a section."""

    quick: bool
    folder: Path
    say: Callable[[str], None]
