"""What holds back a watermark or the clock of a model's outcomes, in words: the first of its causes that is so."""

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.declare.durations import UNITS_US
from headrace.declare.model import Model
from headrace.log.lag import Behind
from headrace.log.progress import SILENT_AFTER_US, OutcomesProgress, QueryProgress
from headrace.serve.lagging import Readers

BEHIND_SECONDS = 5.0  # less than that is on its way
QUIET_US = 10 * UNITS_US["s"]
IDLE_US = 30 * UNITS_US["s"]  # of one partition among others: keys leave natural gaps
MOST_NAMED = 3
MINUTES_FROM = 300.0


@dataclass(frozen=True)
class Moment:
    """What is known now: how far queries are behind, and when a record of each partition was last judged."""

    now_us: int
    behind: Behind
    heard_us: Mapping[str, Mapping[int, int]]

    def watermark(self, said: QueryProgress) -> str:
        """What holds back the watermark of a query's state."""
        gate_s = self.behind.seconds_of(f"{said.stream}.gate") or 0.0
        tiles_s = self.behind.seconds_of(said.query) or 0.0
        if not self._runs(said):
            return f"{said.query} does not run"
        if gate_s >= BEHIND_SECONDS:
            return f"waits for the gate, which is {_seconds(gate_s)} behind"
        if tiles_s >= BEHIND_SECONDS:
            return f"is {_seconds(tiles_s)} behind the gate"
        return self._quiet(said.stream) or "nothing: it follows the newest event with each checkpoint"

    def clock(self, model: Model, said: OutcomesProgress) -> str:
        """What holds back the clock of a model's outcomes, which is that of its slower stream."""
        labels = model.stream if model.labels is None else model.labels.stream
        waits = {stream.name: self.behind.seconds_of(f"{stream.name}.gate") or 0.0 for stream in (model.stream, labels)}
        slower = max(waits, key=lambda name: waits[name])
        if not self._runs(said):
            return f"the outcomes of {model.name} are not joined"
        if waits[slower] >= BEHIND_SECONDS:
            return f"waits for the slower stream {slower}, whose gate is {_seconds(waits[slower])} behind"
        if said.lag:
            return f"waits for the join, which has {said.lag} records before it"
        return "nothing: it moves with each step of the join"

    def _runs(self, said: QueryProgress | OutcomesProgress) -> bool:
        return said.running and self.now_us - said.at_us < SILENT_AFTER_US

    def _quiet(self, stream: str) -> str:
        """Which partitions of a stream nothing comes from, where others have news; empty where all have."""
        heard = self.heard_us.get(stream, {})
        if not any(heard.values()):
            return "no events yet"
        quiet_us = {partition: self.now_us - at_us for partition, at_us in heard.items() if at_us}
        if min(quiet_us.values()) >= QUIET_US:
            return f"no events for {_seconds(min(quiet_us.values()) / 1e6)}"
        idle = sorted(partition for partition, us in quiet_us.items() if us >= IDLE_US)
        named = [f"partition {partition} idle for {_seconds(quiet_us[partition] / 1e6)}" for partition in idle]
        more = [f"and {len(idle) - MOST_NAMED} more"] if len(idle) > MOST_NAMED else []
        return ", ".join([*named[:MOST_NAMED], *more])


def held(readers: Readers, behind: Behind, now_us: int) -> dict[str, str]:
    """The words for each query that has a watermark, and for each model whose outcomes are joined."""
    moment = Moment(now_us, behind, {name: ledger.heard_us() for name, ledger in readers.ledgers.read.items()})
    queries = {said.query: moment.watermark(said) for stream in readers.app.streams for said in readers.kept(stream)}
    outcomes = readers.board.outcomes.copy()
    judged = [model for model in readers.app.models if model.name in outcomes]
    return queries | {f"outcomes of {model.name}": moment.clock(model, outcomes[model.name]) for model in judged}


def _seconds(seconds: float) -> str:
    """As a person says it.

    >>> _seconds(40.2), _seconds(4000.0)
    ('40 s', '67 min')
    """
    return f"{seconds:.0f} s" if seconds < MINUTES_FROM else f"{seconds / 60:.0f} min"
