"""Rewards that come late, joined with the decisions they are of: two topics in, lessons for a policy out.

banner.decisions   ● visit 17: arm 2 ────────────── within ──────────────┤ no click until here is a reward of 0
banner.clicks              ● visit 17 was clicked: a reward of 1            ● too late: it was learned as a 0

Time is counted in visits, which decisions carry: a replay of the log decides the same, in whatever order topics come.
"""

import json
from collections.abc import Iterable

import numpy as np
from thompson import Thompson

from headrace.kafka.record import ConsumerRecord

DECISIONS, CLICKS = "banner.decisions", "banner.clicks"


class Rewarded:
    """Teaches a policy what came of its decisions, each once, when it is known for good."""

    def __init__(self, policy: Thompson, within: int) -> None:
        self.policy, self.within = policy, within
        self.visits = self.clicked = self.heard = 0
        self._open: dict[int, tuple[int, list[float]]] = {}
        self._clicks: dict[int, int] = {}

    def apply(self, records: Iterable[ConsumerRecord]) -> None:
        """Decisions and clicks of the log; one that comes twice is the same."""
        for record in records:
            self.heard += 1
            said = json.loads(record.value or b"{}")
            if record.topic == CLICKS:
                self._clicks[said["visit"]] = said["at"]
            elif said["visit"] >= self.visits:
                self._open[said["visit"]] = said["arm"], said["context"]
                self.visits = said["visit"] + 1

    def settle(self) -> None:
        """Learn what is over: a click in time is a reward, and so is none."""
        for visit in [visit for visit in self._open if visit + self.within < self.visits]:
            arm, context = self._open.pop(visit)
            is_clicked = self._clicks.pop(visit, visit + self.within + 1) <= visit + self.within
            self.policy.learn(arm, np.array(context), float(is_clicked))
            self.clicked += is_clicked
