"""When models are trained anew: so long after the last time, or once an alert of theirs has begun to fire."""

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.declare.durations import duration_text
from headrace.declare.retrain import Retrain


@dataclass(frozen=True)
class Schedule:
    """Which models are due, by when each was last tried. An alert that goes on firing is one reason, not many."""

    rules: Mapping[str, Retrain]
    tried_us: Mapping[str, int]

    def due(self, now_us: int, firing: Mapping[str, int]) -> dict[str, str]:
        """The models to train now, and why; `firing` are the alerts that fire, and since when in epoch µs."""
        found = {model: self._why(model, now_us, firing) for model in self.rules}
        return {model: why for model, why in found.items() if why}

    def _why(self, model: str, now_us: int, firing: Mapping[str, int]) -> str | None:
        rules = self.rules[model]
        for alert in rules.when:
            if firing.get(alert, 0) > self.tried_us[model]:
                return f"alert {alert!r} fires"
        if rules.every_us is not None and now_us >= self.tried_us[model] + rules.every_us:
            return f"every {duration_text(rules.every_us)}"
        return None
