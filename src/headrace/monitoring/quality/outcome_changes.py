"""Changes of outcomes as columns: the previous and the current status of predictions."""

from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray

from headrace.declare.models.metrics import MINUTE_US
from headrace.monitoring.quality.quality_tile import STATES, QualityKey

ORPHAN, MATCHED, DEFAULTED = map(STATES.index, ("orphan", "matched", "defaulted"))
ABSENT = -1  # the state before the first change, or after removal
CHANGE_SCHEMA = pa.schema(
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
class OutcomeColumns:
    """One side of the changes: the index in STATES of each, and its label, NaN for none."""

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

    def take(self, rows: NDArray[np.intp]) -> "OutcomeColumns":
        return OutcomeColumns(self.state[rows], self.label[rows])


@dataclass(frozen=True)
class OutcomeChanges:
    """Changes of one model, each of the tile `keys[tile]`."""

    keys: list[QualityKey]
    tile_index: NDArray[np.int64]
    score: NDArray[np.float64]
    before: OutcomeColumns
    after: OutcomeColumns
    delay_us: NDArray[np.float64]

    def take(self, rows: NDArray[np.intp]) -> "OutcomeChanges":
        """Some of the changes, with the same keys."""
        return OutcomeChanges(
            self.keys,
            self.tile_index[rows],
            self.score[rows],
            self.before.take(rows),
            self.after.take(rows),
            self.delay_us[rows],
        )


def changes_from_table(table: pa.Table) -> OutcomeChanges:
    """The changes of a table with the columns of `CHANGE`; a minute may be any time within it."""
    encoded_columns = [_dictionary_encode(table[name]) for name in ("version", "role", "segment")]
    minutes, minute_index = np.unique(_to_numbers(table["minute_us"], np.int64) // MINUTE_US, return_inverse=True)
    codes = reduce(
        lambda code, encoded_column: code * (len(encoded_column[0]) + 1) + encoded_column[1] + 1,
        encoded_columns,
        np.zeros(len(table), dtype=np.int64),
    )
    _, first_rows, tile_index = np.unique(
        codes * max(1, len(minutes)) + minute_index, return_index=True, return_inverse=True
    )
    return OutcomeChanges(
        keys=[
            QualityKey(*_key_fields(encoded_columns, row), start_us=int(minutes[minute_index[row]]) * MINUTE_US)
            for row in first_rows.tolist()
        ],
        tile_index=tile_index.astype(np.int64),
        score=_to_numbers(table["score"], np.float64),
        before=_outcome_columns(table, "before"),
        after=_outcome_columns(table, "after"),
        delay_us=_to_numbers(table["label_delay_us"], np.float64),
    )


EncodedColumn = tuple[list[str], NDArray[np.int64]]


def _dictionary_encode(column: Any) -> EncodedColumn:
    """The distinct texts of a column, and for each row the index of its text; ABSENT for null."""
    encoded = column.combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    indices = encoded.indices.fill_null(ABSENT).to_numpy(zero_copy_only=False)
    return encoded.dictionary.to_pylist(), indices.astype(np.int64)


def _key_fields(encoded_columns: list[EncodedColumn], row: int) -> tuple[str, str, tuple[tuple[str, Any], ...]]:
    version, role, segment = (
        distinct_texts[indices[row]] if indices[row] != ABSENT else "" for distinct_texts, indices in encoded_columns
    )
    return version, role, tuple(sorted(orjson.loads(segment or "{}").items()))


def _outcome_columns(table: pa.Table, side: str) -> OutcomeColumns:
    names, indices = _dictionary_encode(table[f"state_{side}"])
    for name in names:
        if name not in STATES:
            raise ValueError(f"state_{side} is {name!r}. An outcome is {', '.join(STATES)}, or null where it is not.")
    state_codes = np.array([*map(STATES.index, names), ABSENT], dtype=np.int64)  # the last, at index -1, is for null
    return OutcomeColumns(state_codes[indices], _to_numbers(table[f"label_{side}"], np.float64))


def _to_numbers(column: Any, dtype: type[np.generic]) -> NDArray[Any]:
    """A column of numbers or booleans; null is NaN where it may occur."""
    arrow_type = pa.from_numpy_dtype(dtype)
    numbers = column.cast(pa.int8()) if pa.types.is_boolean(column.type) else column
    result: NDArray[Any] = numbers.cast(arrow_type).to_numpy().astype(dtype)
    return result
