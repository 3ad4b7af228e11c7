"""The names of an app's declarations in each naming style."""

from dataclasses import dataclass

from tests.apps.domains import DOMAINS, Words
from tests.apps.factors import Row


@dataclass(frozen=True)
class Names:
    """The names of an app's declarations and columns."""

    main: str
    other: str
    function: str
    window: str
    join: str
    pattern: str
    verdicts: str
    views: tuple[str, str]
    model: str
    id: str
    key: str
    amount: str
    sort: str

    @property
    def entity(self) -> dict[str, tuple[str, ...]]:
        """The columns of each sort of entity."""
        return {
            "text": (self.key,),
            "number": ("zone",),
            "composite": (self.key, "zone"),
            "boolean": ("peak",),
            "moment": ("since",),
        }


def names_of(row: Row) -> Names:
    """The names of an app."""
    words = DOMAINS[row.domain]
    return _STYLES[row["names"]](words)


def _snake(words: Words) -> Names:
    event, thing = words.event, words.thing
    streams = (f"{event}s", f"{words.other}s", f"{event}s_kept", f"{event}_windows", f"{event}_pairs", f"{event}_runs")
    rest = (f"{event}_verdicts", (f"{thing}_load", f"{words.sort}_mix"), f"{thing}_risk")
    return Names(*streams, *rest, f"{event}_id", thing, words.amount, words.sort)


def _kebab(words: Words) -> Names:
    """Dashes and dots, as topics may have them."""
    event, thing = words.event.replace("_", "-"), words.thing.title().replace("_", "")
    streams = (f"{event}.raw", f"{event}.other-1", f"{event}-kept.v2", f"{event}-windows", f"{event}-pairs.v1")
    rest = (f"{event}-runs", f"{event}.verdicts", (f"{thing}Load", f"{thing}Mix"), f"{event}-risk")
    return Names(*streams, *rest, f"{words.event}_id", words.thing, words.amount, words.sort)


def _near(words: Words) -> Names:
    """Names that nearly meet those of other declarations, and of what Headrace makes of them."""
    event = words.event
    streams = (event, f"{event}_latest", f"{event}_cleaned", f"{event}_tile", f"{event}_deadline", f"{event}_served_by")
    rest = (f"{event}_prediction", (event.title().replace("_", ""), f"{event}_window"), f"{event}_score")
    return Names(*streams, *rest, "ident", "key", "value", "type")


def _loud(words: Words) -> Names:
    """Capitals, also where only they tell two names apart."""
    event, thing = words.event.upper(), words.thing.title().replace("_", "")
    streams = (event, words.other.title(), f"{event}Kept", f"{event}Windows", f"{event}_PAIRS", f"{event}Runs")
    rest = (f"{event}_VERDICTS", (f"{thing}LOAD", f"{thing}Mix"), f"{thing}RISK")
    return Names(*streams, *rest, f"{event}_ID", f"{thing}Name", words.amount.upper(), "Sort")


_STYLES = {"snake": _snake, "kebab": _kebab, "near": _near, "loud": _loud}
