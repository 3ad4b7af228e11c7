"""Spark's state and timers of one grouping key, in memory, so that a test can run them thousands of times a second."""

from typing import Any

from headrace.spark.stateful.keyed_operator import BucketProcessor


class MapState:
    def __init__(self) -> None:
        self.rows: dict[Any, Any] = {}

    def exists(self) -> bool:
        return bool(self.rows)

    def getValue(self, key: Any) -> Any:  # noqa: N802
        return self.rows.get(key)

    def updateValue(self, key: Any, value: Any) -> None:  # noqa: N802
        self.rows[key] = value

    def removeKey(self, key: Any) -> None:  # noqa: N802
        self.rows.pop(key, None)


class ValueState:
    def __init__(self) -> None:
        self.value: Any = None

    def get(self) -> Any:
        return self.value

    def update(self, value: Any) -> None:
        self.value = value


class Bucket:
    """A bucket as Spark runs it: the rows of a batch first, then the timers that the watermark has passed."""

    def __init__(self, processor: BucketProcessor) -> None:
        self.states: dict[str, MapState] = {}
        self.timers: set[int] = set()
        self._processor, self._watermark_ms = processor, 0
        processor.init(self)  # type: ignore[arg-type]

    def batch(self, said: list[str], watermark_ms: int) -> list[Any]:
        """What a batch makes."""
        self._watermark_ms = max(watermark_ms, self._watermark_ms)
        made = list(self._processor.handleInputRows((0,), iter([(0, one) for one in said]), self)) if said else []  # type: ignore[arg-type]
        for at_ms in sorted(self.timers):
            if at_ms < self._watermark_ms:  # as Spark does: what is due at the watermark waits
                self.timers.remove(at_ms)
                made += self._processor.handleExpiredTimer((0,), self, Expired(at_ms))  # type: ignore[arg-type]
        return made

    def getMapState(self, name: str, *_schemas: str) -> MapState:  # noqa: N802
        return self.states.setdefault(name, MapState())

    def getValueState(self, _name: str, _schema: str) -> ValueState:  # noqa: N802
        return ValueState()

    def registerTimer(self, at_ms: int) -> None:  # noqa: N802
        assert at_ms > self._watermark_ms, "a timer in the past is fired by nobody"
        self.timers.add(at_ms)

    def getCurrentWatermarkInMs(self) -> int:  # noqa: N802
        return self._watermark_ms


class Expired:
    def __init__(self, at_ms: int) -> None:
        self._at_ms = at_ms

    def getExpiryTimeInMs(self) -> int:  # noqa: N802
        return self._at_ms
