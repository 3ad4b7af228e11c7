"""Joins delayed rewards with their decisions: reads two topics, updates a policy.

banner.decisions   ● visit 17: arm 2 ────────────── within ──────────────┤ no click until here is a reward of 0
banner.clicks              ● visit 17 was clicked: a reward of 1            ● too late: it was learned as a 0

Time is counted in visits, which decisions carry: a replay of the log gives the same result in any order of the topics.
"""

import json
from collections.abc import Iterable

import numpy as np
from thompson import Thompson

from headrace.kafka.record import ConsumerRecord

DECISIONS, CLICKS = "banner.decisions", "banner.clicks"


class Rewarded:
    """Updates a policy with the reward of each decision, once, when the reward is final."""

    def __init__(self, policy: Thompson, within: int) -> None:
        self.policy, self.within = policy, within
        self.visits = self.clicked = self.heard = 0
        self._open: dict[int, tuple[int, list[float]]] = {}
        self._clicks: dict[int, int] = {}

    def apply(self, records: Iterable[ConsumerRecord]) -> None:
        """Apply decisions and clicks of the log; duplicates have no effect."""
        for record in records:
            self.heard += 1
            fields = json.loads(record.value or b"{}")
            if record.topic == CLICKS:
                self._clicks[fields["visit"]] = fields["at"]
            elif fields["visit"] >= self.visits:
                self._open[fields["visit"]] = fields["arm"], fields["context"]
                self.visits = fields["visit"] + 1

    def settle(self) -> None:
        """Learn from decisions whose time is up: a click in time is a reward of 1, no click is a reward of 0."""
        for visit in [visit for visit in self._open if visit + self.within < self.visits]:
            arm, context = self._open.pop(visit)
            is_clicked = self._clicks.pop(visit, visit + self.within + 1) <= visit + self.within
            self.policy.learn(arm, np.array(context), float(is_clicked))
            self.clicked += is_clicked
