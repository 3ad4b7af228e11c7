"""Changes of outcomes as columns: what was known of a prediction, and what is known now."""

from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray

from headrace.declare.metrics import MINUTE_US
from headrace.evaluate.quality.tile import STATES, QualityKey

ORPHAN, MATCHED, DEFAULTED = map(STATES.index, ("orphan", "matched", "defaulted"))
ABSENT = -1  # the state of what is not there: before its first change, or after it was taken out
CHANGE = pa.schema(
    {
        "version": pa.string(),
        "role": pa.string(),
        "segment": pa.string(),  # JSON, such as {"country":"FR"}; null for none
        "minute_us": pa.int64(),
        "score": pa.float64(),
        "state_before": pa.string(),
        "label_before": pa.float64(),
        "state_after": pa.string(),
        "label_after": pa.float64(),
        "label_delay_us": pa.int64(),
    }
)


@dataclass(frozen=True)
class Known:
    """One side of the changes: the state of each, by its place in STATES, and its label, NaN for none."""

    state: NDArray[np.int64]
    label: NDArray[np.float64]

    @property
    def is_predicted(self) -> NDArray[np.bool_]:
        return np.isin(self.state, (ABSENT, ORPHAN), invert=True)

    @property
    def is_matched(self) -> NDArray[np.bool_]:
        return np.isin(self.state, (MATCHED,))

    @property
    def is_labelled(self) -> NDArray[np.bool_]:
        return np.isin(self.state, (MATCHED, DEFAULTED))

    def take(self, rows: NDArray[np.intp]) -> "Known":
        return Known(self.state[rows], self.label[rows])


@dataclass(frozen=True)
class Changes:
    """Changes of one model, each of the tile `keys[tile]`."""

    keys: list[QualityKey]
    tile: NDArray[np.int64]
    score: NDArray[np.float64]
    before: Known
    after: Known
    delay_us: NDArray[np.float64]

    def take(self, rows: NDArray[np.intp]) -> "Changes":
        """Some of them, of the same keys."""
        return Changes(
            self.keys,
            self.tile[rows],
            self.score[rows],
            self.before.take(rows),
            self.after.take(rows),
            self.delay_us[rows],
        )


def changes_of(table: pa.Table) -> Changes:
    """The changes of a table with the columns of `CHANGE`; a minute may be any time within it."""
    texts = [_coded(table[name]) for name in ("version", "role", "segment")]
    minutes, minute = np.unique(_numbers(table["minute_us"], np.int64) // MINUTE_US, return_inverse=True)
    codes = reduce(lambda code, one: code * (len(one[0]) + 1) + one[1] + 1, texts, np.zeros(len(table), dtype=np.int64))
    _, first, tile = np.unique(codes * max(1, len(minutes)) + minute, return_index=True, return_inverse=True)
    return Changes(
        keys=[
            QualityKey(*_key_texts(texts, row), start_us=int(minutes[minute[row]]) * MINUTE_US)
            for row in first.tolist()
        ],
        tile=tile.astype(np.int64),
        score=_numbers(table["score"], np.float64),
        before=_known(table, "before"),
        after=_known(table, "after"),
        delay_us=_numbers(table["label_delay_us"], np.float64),
    )


Coded = tuple[list[str], NDArray[np.int64]]


def _coded(column: Any) -> Coded:
    """The texts of a column, and for each row which of them it has; ABSENT for null."""
    encoded = column.combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    places = encoded.indices.fill_null(ABSENT).to_numpy(zero_copy_only=False)
    return encoded.dictionary.to_pylist(), places.astype(np.int64)


def _key_texts(texts: list[Coded], row: int) -> tuple[str, str, tuple[tuple[str, Any], ...]]:
    version, role, segment = (found[places[row]] if places[row] != ABSENT else "" for found, places in texts)
    return version, role, tuple(sorted(orjson.loads(segment or "{}").items()))


def _known(table: pa.Table, side: str) -> Known:
    names, places = _coded(table[f"state_{side}"])
    for name in names:
        if name not in STATES:
            raise ValueError(f"state_{side} is {name!r}. An outcome is {', '.join(STATES)}, or null where it is not.")
    codes = np.array([*map(STATES.index, names), ABSENT], dtype=np.int64)  # the last is taken for null, by -1
    return Known(codes[places], _numbers(table[f"label_{side}"], np.float64))


def _numbers(column: Any, dtype: type[np.generic]) -> NDArray[Any]:
    """A column of numbers or booleans; where null may be, it is NaN."""
    kind = pa.from_numpy_dtype(dtype)
    numbers = column.cast(pa.int8()) if pa.types.is_boolean(column.type) else column
    cast: NDArray[Any] = numbers.cast(kind).to_numpy().astype(dtype)
    return cast
