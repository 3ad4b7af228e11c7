"""How far two samples are apart, and how far they would be by chance, on counts of both in the same bins.

`before` and `now` are counts, of several columns side by side; `begins` says where each column's begin. More axes
before the last are windows. n = rows before · rows now / (rows before + rows now) is the size both are worth together.

           without drift it is about         greater by chance with alpha where it exceeds
PSI        chi-square / n                    chi-square(1 - alpha) / n
JS         chi-square / 8n                   chi-square(1 - alpha) / 8n
KS         Kolmogorov's, less in bins        sqrt(ln(2 / alpha) / 2n), which bounds it
share      binomial, given both together     exact
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, chdtrc, chdtri, rel_entr

from headrace.score.reference import Counts, Floats

Begins = NDArray[np.intp]

ONE = np.zeros(1, np.intp)
HALF_A_ROW = 0.5  # is added to each bin, so that an empty one is rare and not impossible


class Sizes(NamedTuple):
    """Rows of each column in both samples."""

    before: Floats
    now: Floats

    @property
    def together(self) -> Floats:
        """The size both are worth together; none where one of them is empty."""
        return self.before * self.now / np.maximum(self.before + self.now, 1)


def sizes(before: Counts, now: Counts, begins: Begins = ONE) -> Sizes:
    """The rows of each column."""
    return Sizes(_sums(before, begins).astype(np.float64), _sums(now, begins).astype(np.float64))


def psi(before: Counts, now: Counts, begins: Begins = ONE) -> Floats:
    """The population stability index: the divergence of both ways, in nats."""
    was, is_ = _smoothed(before, begins), _smoothed(now, begins)
    return _sums((is_ - was) * np.log(is_ / was), begins)


def jensen_shannon(before: Counts, now: Counts, begins: Begins = ONE) -> Floats:
    """The Jensen-Shannon divergence, in nats: from 0 to ln 2."""
    was, is_ = _shares(before, begins), _shares(now, begins)
    between = (was + is_) / 2
    return _sums(rel_entr(was, between) + rel_entr(is_, between), begins) / 2


def chi_square(before: Counts, now: Counts, begins: Begins = ONE) -> Floats:
    """Pearson's statistic that both are samples of one distribution."""
    apart = (_shares(now, begins) - _shares(before, begins)) ** 2
    rows = sizes(before, now, begins)
    both = (before + now) / _spread(np.maximum(rows.before + rows.now, 1), begins, now.shape[-1])
    statistic: Floats = rows.together * _sums(apart / np.where(both > 0, both, 1), begins)
    return statistic


def kolmogorov_smirnov(before: Counts, now: Counts, begins: Begins = ONE) -> tuple[Floats, Floats]:
    """The greatest difference of both distribution functions: at the bins' ends, and how much more it may be within.

    A test by the first is never fooled by the bins: the true one is at least that.
    """
    was, is_ = _shares(before, begins), _shares(now, begins)
    apart = np.cumsum(is_ - was, axis=-1)
    apart -= _spread((apart - is_ + was)[..., begins], begins, now.shape[-1])  # each column begins at zero again
    least = np.maximum.reduceat(np.abs(apart), begins, axis=-1)
    within = np.maximum(was - (apart - is_ + was), is_ + (apart - is_ + was))
    return least, np.maximum(np.maximum.reduceat(within, begins, axis=-1) - least, 0)


def chi_square_chance(statistic: Floats, freedom: NDArray[np.intp]) -> Floats:
    """How likely chi-square is at least this; where there is one group alone, certain."""
    return np.where(freedom > 0, chdtrc(np.maximum(freedom, 1), np.maximum(statistic, 0)), 1.0)


def chi_square_critical(alpha: float, freedom: NDArray[np.intp]) -> Floats:
    """What chi-square exceeds with this chance; never where there is one group alone."""
    return np.where(freedom > 0, chdtri(np.maximum(freedom, 1), alpha), np.inf)


def ks_chance(statistic: Floats, together: Floats) -> Floats:
    """At most how likely Kolmogorov and Smirnov's statistic is at least this."""
    chance: Floats = np.minimum(1.0, 2 * np.exp(-2 * together * statistic**2))
    return chance


def ks_critical(alpha: float, together: Floats) -> Floats:
    """What the statistic exceeds with at most this chance."""
    critical: Floats = np.sqrt(np.log(2 / alpha) / (2 * together))
    return critical


def share_chance(before: Floats, now: Floats, rows: Sizes) -> Floats:
    """How likely shares of rows differ at least so, given how many of both samples' rows there are in all.

    Of those the ones of now are a binomial draw, or spread less; the rarer of a thing and its contrary is looked at.
    """
    many = before + now > (rows.before + rows.now) / 2
    was, is_ = np.where(many, rows.before - before, before), np.where(many, rows.now - now, now)
    share = rows.now / np.maximum(rows.before + rows.now, 1)
    more = np.where(is_ > 0, betainc(np.maximum(is_, 1), was + 1, share), 1.0)
    less = np.where(was > 0, betainc(np.maximum(was, 1), is_ + 1, 1 - share), 1.0)
    chance: Floats = np.minimum(1.0, 2 * np.minimum(more, less))
    return chance


def _sums(values: NDArray[Any], begins: Begins) -> NDArray[Any]:
    found: NDArray[Any] = np.add.reduceat(values, begins, axis=-1)
    return found


def _shares(counts: Counts, begins: Begins) -> Floats:
    rows = np.maximum(_sums(counts, begins), 1)
    shares: Floats = counts / _spread(rows, begins, counts.shape[-1])
    return shares


def _smoothed(counts: Counts, begins: Begins) -> Floats:
    filled = counts + HALF_A_ROW
    shares: Floats = filled / _spread(_sums(filled, begins), begins, counts.shape[-1])
    return shares


def _spread(of_columns: NDArray[Any], begins: Begins, width: int) -> NDArray[Any]:
    """A value of each column, at each of its bins."""
    return np.repeat(of_columns, np.diff(begins, append=width), axis=-1)
