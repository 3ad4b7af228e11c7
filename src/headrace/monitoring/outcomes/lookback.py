"""How far back a join through the lake has to look, and whether the lake goes back as far.

clock − reach ┤ what is older can meet nothing to come, nor anything that can
"""

from datetime import timedelta

from headrace.declare.app import App
from headrace.declare.durations import UNITS_US, duration_text
from headrace.declare.models.label_policy import LabelPolicy, label_policy_of
from headrace.declare.models.model import Model
from headrace.errors import HeadraceError

MARGIN_US = UNITS_US["d"]  # events ahead of their arrival, and scorers that are behind


class LakeRetentionTooShortError(HeadraceError):
    """A lake that lets go of predictions before their labels have come."""

    def __init__(self, model: Model, within_us: int, needed: timedelta, retention: timedelta) -> None:
        super().__init__(
            f"{model.name}: its labels count within {duration_text(within_us)} and are joined in the lake, of which "
            f"--lake-retention {retention.days}d keeps too little. Write --lake-retention {needed.days + 1}d, "
            "or longer."
        )


def lookback_us(policy: LabelPolicy, margin_us: int = MARGIN_US) -> int:
    """How long before the clock a record may be that a round has to look at.

    A prediction to come meets labels of `kept` ago; these met predictions of `kept` before; and those may repeat
    predictions of `kept` before that.
    """
    return 3 * policy.retention_us + margin_us


def require_retention(app: App, retention: timedelta | None) -> None:
    """Refuse a retention of the lake that lets go of what is still to be joined."""
    for model in app.models:
        require_retention_for(model, retention)


def require_retention_for(model: Model, retention: timedelta | None) -> None:
    """Refuse a retention of the lake that lets go of what is still to be joined for a model."""
    if retention is None or model.labels is None or not model.labels.is_joined_in_lake:
        return
    needed = timedelta(microseconds=lookback_us(label_policy_of(model.labels)))
    if retention < needed:
        raise LakeRetentionTooShortError(model, model.labels.within_us, needed, retention)
