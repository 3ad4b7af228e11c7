"""The versions of a model that score now: its champion, and the challengers that are tried beside it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from headrace.declare.model import Model
from headrace.score.champions import Loaded, load_champion


@dataclass(frozen=True)
class Standing:
    """Who scores at one moment. It never changes: who holds one scores with what it says, whatever is promoted."""

    champion: Loaded
    challengers: tuple[Loaded, ...] = ()


class Lineup:
    """The standing of one model, kept up to date; a version that is unfit is told of, and the one before goes on."""

    def __init__(self, model: Model, state: Path, standing: Standing) -> None:
        self.model = model
        self.standing = standing
        self.trouble: str | None = None
        self._state = state

    @classmethod
    def of(cls, model: Model, state: Path) -> Self:
        """The line-up of a model as it is now; raises what keeps its champion from scoring."""
        return cls(model, state, Standing(load_champion(model, state)))
