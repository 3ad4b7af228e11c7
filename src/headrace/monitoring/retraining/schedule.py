"""When models are retrained: after an interval, or once one of their alerts starts to fire."""

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.declare.durations import duration_text
from headrace.declare.models.retraining import Retrain


@dataclass(frozen=True)
class RetrainingSchedule:
    """Which models are due, by their last attempts. An alert that keeps firing counts once."""

    rules: Mapping[str, Retrain]
    last_attempts_us: Mapping[str, int]

    def due_models(self, now_us: int, firing_since_us: Mapping[str, int]) -> dict[str, str]:
        """The models to retrain now, and why; `firing_since_us` has the firing alerts and their start in epoch µs."""
        reasons = {model: self._due_reason(model, now_us, firing_since_us) for model in self.rules}
        return {model: reason for model, reason in reasons.items() if reason}

    def _due_reason(self, model: str, now_us: int, firing_since_us: Mapping[str, int]) -> str | None:
        rules = self.rules[model]
        for alert in rules.when:
            if firing_since_us.get(alert, 0) > self.last_attempts_us[model]:
                return f"alert {alert!r} fires"
        if rules.every_us is not None and now_us >= self.last_attempts_us[model] + rules.every_us:
            return f"every {duration_text(rules.every_us)}"
        return None
