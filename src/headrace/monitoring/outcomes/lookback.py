"""How far back a join through the lake must look, and whether the lake's retention is long enough.

clock − reach ┤ older records can match nothing new, nor anything that can
"""

from datetime import timedelta

from headrace.declare.app import App
from headrace.declare.durations import UNITS_US, duration_text
from headrace.declare.models.label_policy import LabelPolicy, label_policy_of
from headrace.declare.models.model import Model
from headrace.errors import HeadraceError

MARGIN_US = UNITS_US["d"]  # for events ahead of their arrival, and scorers with lag


class LakeRetentionTooShortError(HeadraceError):
    """A lake whose retention deletes predictions before their labels arrive."""

    def __init__(self, model: Model, within_us: int, needed: timedelta, retention: timedelta) -> None:
        super().__init__(
            f"{model.name}: its labels count within {duration_text(within_us)} and are joined in the lake, of which "
            f"--lake-retention {retention.days}d keeps too little. Write --lake-retention {needed.days + 1}d, "
            "or longer."
        )


def lookback_us(policy: LabelPolicy, margin_us: int = MARGIN_US) -> int:
    """How long before the clock a batch must look.

    A new prediction matches labels of up to `retention_us` before; these matched predictions of as long before them;
    and those may repeat predictions of as long before that.
    """
    return 3 * policy.retention_us + margin_us


def require_retention(app: App, retention: timedelta | None) -> None:
    """Reject a retention of the lake that deletes rows which are still to be joined."""
    for model in app.models:
        require_retention_for(model, retention)


def require_retention_for(model: Model, retention: timedelta | None) -> None:
    """Reject a retention of the lake that deletes rows which are still to be joined for a model."""
    if retention is None or model.labels is None or not model.labels.is_joined_in_lake:
        return
    needed = timedelta(microseconds=lookback_us(label_policy_of(model.labels)))
    if retention < needed:
        raise LakeRetentionTooShortError(model, model.labels.within_us, needed, retention)
