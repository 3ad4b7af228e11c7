"""Bins of scores, calibration and label delays, the same for every model and for ever.

score  0 ┤51 bins, ever wider├ 0.005 ┤198 bins of 0.005├ 0.995 ┤51 bins, ever narrower├ 1
"""

import numpy as np
from numpy.typing import NDArray

_GRID_EDGES = np.arange(1, 200) / 200
_FINE_EDGES = np.round(np.geomspace(1e-6, _GRID_EDGES[0], 51)[:-1], 9)  # rounded: the same on every machine

SCORE_EDGES = np.concatenate([[0.0], _FINE_EDGES, _GRID_EDGES, 1 - _FINE_EDGES[::-1], [1.0]])
SCORE_BINS = len(SCORE_EDGES) - 1
POSITIONS_IN_BIN = 2.0**30  # the resolution of a score's position within its bin
MIN_PROBABILITY = float(np.finfo(np.float64).eps)  # a wrong score of 0 or 1 has a large loss, not an infinite one
CALIBRATION_BINS = 20
CALIBRATION_EDGES = np.arange(1, CALIBRATION_BINS) / CALIBRATION_BINS
CALIBRATION_BIN_BY_SCORE_BIN = np.searchsorted(CALIBRATION_EDGES, SCORE_EDGES[:-1], "right").astype(np.int64)

# From one second on, each a tenth longer than the one before, beyond the longest possible label delay.
DELAY_EDGES_US = np.array([round(1.1**step * 1_000_000) for step in range(208)], dtype=np.float64)
DELAY_BINS = len(DELAY_EDGES_US) + 1


def score_bin(scores: NDArray[np.float64]) -> NDArray[np.int64]:
    """The bin of each score from 0 to 1: its lower edge is in it, and 1 is in the last.

    >>> score_bin(np.array([0.0, 0.5, 1.0])).tolist()
    [0, 150, 299]
    """
    return np.searchsorted(SCORE_EDGES[1:-1], scores, "right").astype(np.int64)


def delay_bin(delays_us: NDArray[np.float64]) -> NDArray[np.int64]:
    """The bin of each delay; delays under a second, and negative ones, are in the first."""
    return np.searchsorted(DELAY_EDGES_US, delays_us, "right").astype(np.int64)
