"""Labels: the true outcome of an event, delivered later by another stream."""

from dataclasses import dataclass
from typing import Literal, get_args

from headrace.declare.durations import UNITS_US, duration_us
from headrace.declare.streams.schema import Kind
from headrace.declare.streams.stream import Stream
from headrace.errors import DeclarationError

LabelValue = bool | int | float
KeepPolicy = Literal["last", "first", "any"]
Task = Literal["classification", "regression"]
LONGEST_STREAM_JOIN_US = UNITS_US[
    "d"
]  # labels that may take longer are joined in the lake: no streaming state waits for them
_VALUE_TYPES = {Kind.BOOLEAN: (bool,), Kind.INTEGER: (int,), Kind.DOUBLE: (int, float)}


@dataclass(frozen=True, init=False)
class Labels:
    """A stream whose events carry the outcome of another stream's events, by the same id.

    event ───────── label counts ─────────┤ within      afterwards: `default`, or unknown without one

    Of several labels that count, `keep` chooses the last by event time, the first, or "any", the greatest.
    """

    stream: Stream
    value: str
    within_us: int
    default: LabelValue | None
    keep: KeepPolicy

    def __init__(
        self, stream: Stream, *, value: str, within: str, default: LabelValue | None = None, keep: KeepPolicy = "last"
    ) -> None:
        if not isinstance(stream, Stream):
            raise DeclarationError(
                f"Labels: {stream!r} is not a stream. Write hr.Labels(chargebacks, …) with an hr.Stream."
            )
        where = f"Labels of {stream.name!r}"
        kind = stream.schema.column(value, f"{where}: value").kind
        if kind not in _VALUE_TYPES:
            raise DeclarationError(
                f"{where}: value={value!r} is {kind.value}. A label is a boolean or a number: name such a column."
            )
        if default is not None and type(default) not in _VALUE_TYPES[kind]:
            raise DeclarationError(
                f"{where}: default={default!r}, and {value!r} is {kind.value}. Write a {kind.value}, or leave it out."
            )
        if kind is Kind.INTEGER and default not in {None, 0, 1}:
            raise DeclarationError(
                f"{where}: default={default!r}, and whole numbers are classes: write 0 or 1, or make {value!r} double."
            )
        if keep not in get_args(KeepPolicy):
            raise DeclarationError(f'{where}: keep={keep!r} is not a choice. Write "last", "first" or "any".')
        object.__setattr__(self, "stream", stream)
        object.__setattr__(self, "value", value)
        object.__setattr__(self, "within_us", duration_us(within, f"{where}: within"))
        object.__setattr__(self, "default", default)
        object.__setattr__(self, "keep", keep)

    @property
    def task(self) -> Task:
        """The prediction task: classification by booleans or by 0 and 1, regression by doubles."""
        return (
            "regression"
            if self.stream.schema.column(self.value, self.stream.name).kind is Kind.DOUBLE
            else "classification"
        )

    @property
    def is_joined_in_lake(self) -> bool:
        """Whether labels take so long that predictions are joined with them in the lake and not in the stream."""
        return self.within_us > LONGEST_STREAM_JOIN_US
