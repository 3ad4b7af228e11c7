"""A rising error rate is suspected, then confirmed; a constant or falling one is not."""

import numpy as np
import pytest

from headrace.monitoring.drift.sequential_detection import ErrorDriftDetector, ErrorRateChange, InvalidOutcomeError


def changes(*shares_and_sizes: tuple[float, int], seed: int = 0) -> list[ErrorRateChange]:
    rng, watch = np.random.default_rng(seed), ErrorDriftDetector()
    outcomes = np.concatenate([rng.random(size) < share for share, size in shares_and_sizes])
    return [change for wrong in outcomes.tolist() if (change := watch.update(wrong)) is not None]


def test_more_errors_are_suspected_and_confirmed_soon():
    found = changes((0.05, 5_000), (0.3, 3_000))
    assert found[-1].is_confirmed
    assert 5_000 < found[0].outcome_number < 5_300
    assert found[-1].outcome_number < 6_000
    assert found[0].rate_before < 0.08 < found[0].rate_since


def test_fewer_errors_are_no_alarm():
    assert changes((0.3, 5_000), (0.05, 5_000)) == []


@pytest.mark.parametrize("share", [0.0, 0.02, 0.3, 1.0])
def test_the_same_share_of_errors_is_no_alarm(share):
    assert not any(change.is_confirmed for change in changes((share, 20_000)))


@pytest.mark.parametrize("hostile", [float("nan"), 0.5, -1, 2, float("inf")])
def test_what_is_neither_right_nor_wrong_is_refused(hostile):
    with pytest.raises(InvalidOutcomeError):
        ErrorDriftDetector().update(hostile)
