"""How long it takes until nothing waits any more, from how fast records come and how fast they are done with.

came   ─────────────────────────────────────▶   the last 30 seconds: what comes does not depend on who reads it
done   ──────╮ stands still ╭───────────────▶   since it moved again, of the last 25 seconds
             └ does not catch up └ two moves later: what waits / (done a second − came a second)
"""

from collections import deque
from collections.abc import Sequence
from itertools import pairwise
from math import inf
from typing import NamedTuple

LEAST_WAIT_SECONDS = 2.0  # what is on its way is no lag: looks are a second apart
CAME_SECONDS = 30.0
DONE_SECONDS = 25.0
STILL_SECONDS = 5.0  # the longest that a micro-batch may take and still move
APART_SECONDS = 0.5
LEAST_GAIN = 0.02  # of what comes: who is hardly faster than that does not catch up


class Look(NamedTuple):
    """How many records had come and were done with at a moment."""

    at_s: float
    came: int
    done: int


class CatchUp:
    """Looks of one query, and what they say; one thread looks."""

    def __init__(self) -> None:
        self._looks: deque[Look] = deque()

    def add(self, look: Look, waited_s: float) -> float | None:
        """The seconds until nothing waits: infinity where it does not catch up, None without lag, or too little known.

        `waited_s` is for how long the oldest record has waited.
        """
        self._keep(look)
        if look.came <= look.done or waited_s < LEAST_WAIT_SECONDS:
            return None
        moves = [one for before, one in pairwise(self._looks) if one.done > before.done]
        done = self._done_a_second(moves, look.at_s)
        if done is None:
            return None
        came = _a_second([(one.at_s, one.came) for one in self._looks])
        gain = done - came
        if gain <= LEAST_GAIN * came:
            return inf
        # What a batch has done is seen at its end: what was left then is known best.
        last = moves[-1]
        return max(0.0, (last.came - last.done) / gain - (look.at_s - last.at_s))

    def _keep(self, look: Look) -> None:
        looks = self._looks
        if looks and look.came < looks[-1].came:
            looks.clear()  # a topic that began anew
        if looks and look.done < looks[-1].done:
            look = look._replace(done=looks[-1].done)  # what is on its way may be counted twice for a moment
        if len(looks) > 1 and look.at_s - looks[-2].at_s < APART_SECONDS:
            looks.pop()
        looks.append(look)
        while looks[0].at_s < look.at_s - CAME_SECONDS:
            looks.popleft()

    def _done_a_second(self, moves: Sequence[Look], now_s: float) -> float | None:
        """How fast records are done with since that moved again; 0 where it stands still, None where too few know."""
        last_s = moves[-1].at_s if moves else self._looks[0].at_s
        if now_s - last_s >= STILL_SECONDS:
            return 0.0
        lately = _without_a_pause([move for move in moves if move.at_s >= now_s - DONE_SECONDS])
        if len(lately) < 2:
            return None
        # Moves are as far apart as batches: who has not moved for two of them has become slower.
        apart_s = (last_s - lately[0].at_s) / (len(lately) - 1)
        return _a_second([(lately[0].at_s, lately[0].done), (max(last_s, now_s - 2 * apart_s), lately[-1].done)])


def _without_a_pause(moves: Sequence[Look]) -> Sequence[Look]:
    """The last moves, of which none came long after the one before."""
    pauses = [n for n, (one, other) in enumerate(pairwise(moves), 1) if other.at_s - one.at_s >= STILL_SECONDS]
    return moves[pauses[-1] if pauses else 0 :]


def _a_second(counts: Sequence[tuple[float, int]]) -> float:
    (first_s, first), (last_s, last) = counts[0], counts[-1]
    return (last - first) / (last_s - first_s) if last_s > first_s else 0.0
