"""Thompson sampling: chooses each arm with the probability that it is the best, given the rewards so far."""

import numpy as np
from numpy.typing import NDArray

Context = NDArray[np.float64]


class Thompson:
    """A Bayesian linear model of each arm's reward: its state is two sums, so the order of rewards does not matter."""

    def __init__(self, arms: int, size: int, spread: float = 0.2, seed: int = 0) -> None:
        self.precision = np.stack([np.eye(size)] * arms)  # per arm: identity + sum of context ⊗ context
        self.rewarded = np.zeros((arms, size))  # per arm: sum of context * reward
        self._spread, self._chance = spread, np.random.default_rng(seed)

    def choose(self, context: Context) -> int:
        """The best arm under one draw from the posterior."""
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
    """Simulates visitors and their clicks; a policy sees a visitor's context, but not the probability of a click."""

    def __init__(self, arms: int = 4, size: int = 6, seed: int = 0) -> None:
        self._chance = np.random.default_rng(seed)
        self._taste = self._chance.normal(0, 0.12, (arms, size))
        self._taste[:, 0] = 0.15
        self.arms, self.size = arms, size

    def visitor(self) -> Context:
        """A visitor's context: a constant 1, then binary features."""
        return np.concatenate([[1.0], self._chance.integers(0, 2, self.size - 1)])

    def chances(self, context: Context) -> Context:
        """The probability of a click on each banner."""
        return np.clip(self._taste @ context, 0.01, 0.9)

    def clicks(self, chance: float) -> bool:
        return bool(self._chance.random() < chance)

    def delay(self, within: int) -> int:
        """The number of visits until a click is sent; some clicks are too late to count."""
        return int(self._chance.integers(1, within * 5 // 4))


def regret(chances: Context, arm: int) -> float:
    """The difference in click probability to the best arm."""
    return float(chances.max() - chances[arm])
