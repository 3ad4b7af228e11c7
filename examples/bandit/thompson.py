"""Thompson sampling: each arm is tried as often as it may be the best, as far as its rewards tell so far."""

import numpy as np
from numpy.typing import NDArray

Context = NDArray[np.float64]


class Thompson:
    """A Bayesian linear model of each arm's reward: what is known is two sums, so the order of rewards is no matter."""

    def __init__(self, arms: int, size: int, spread: float = 0.2, seed: int = 0) -> None:
        self.precision = np.stack([np.eye(size)] * arms)  # of each arm: 1 + the contexts it was tried in, squared
        self.rewarded = np.zeros((arms, size))  # and the contexts times what it brought
        self._spread, self._chance = spread, np.random.default_rng(seed)

    def choose(self, context: Context) -> int:
        """The arm that is best by one draw of what may be true."""
        return int(np.argmax([self._drawn(arm) @ context for arm in range(len(self.rewarded))]))

    def learn(self, arm: int, context: Context, reward: float) -> None:
        self.precision[arm] += np.outer(context, context)
        self.rewarded[arm] += context * reward

    def _drawn(self, arm: int) -> Context:
        root = np.linalg.cholesky(self.precision[arm])
        mean = np.linalg.solve(self.precision[arm], self.rewarded[arm])
        noise = np.linalg.solve(root.T, self._chance.standard_normal(len(mean)))
        return np.asarray(mean + self._spread * noise)


class World:
    """Visitors and the banners they click: who they are is seen, how likely each click is nobody knows."""

    def __init__(self, arms: int = 4, size: int = 6, seed: int = 0) -> None:
        self._chance = np.random.default_rng(seed)
        self._taste = self._chance.normal(0, 0.12, (arms, size))
        self._taste[:, 0] = 0.15
        self.arms, self.size = arms, size

    def visitor(self) -> Context:
        """A constant, then what is so of this one and what is not."""
        return np.concatenate([[1.0], self._chance.integers(0, 2, self.size - 1)])

    def chances(self, context: Context) -> Context:
        """How likely a click on each banner is."""
        return np.clip(self._taste @ context, 0.01, 0.9)

    def clicks(self, chance: float) -> bool:
        return bool(self._chance.random() < chance)

    def delay(self, within: int) -> int:
        """After how many more visits a click is told; some come too late to count."""
        return int(self._chance.integers(1, within * 5 // 4))


def regret(chances: Context, arm: int) -> float:
    """How much less likely a click is than with the best arm."""
    return float(chances.max() - chances[arm])
