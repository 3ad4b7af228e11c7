"""Choose banners by delayed rewards that arrive through the log: python examples/bandit/banners.py."""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
from rewards import CLICKS, DECISIONS, Rewarded
from thompson import Thompson, World, regret

from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.kafka.compacted_topic import ensure_compacted_topic
from headrace.kafka.consumers.tailing_consumer import TailingConsumer
from headrace.kafka.producer.producer import Producer

EVERY = 50  # visits between two waits for the log
WITHIN = 200  # visits within which a click counts
PATIENCE_SECONDS = 30.0


class Shop:
    """Chooses a banner for each visitor, and sends decisions and delayed clicks to the log."""

    def __init__(self, producer: Producer, world: World, rewarded: Rewarded) -> None:
        self.sent, self.told = rewarded.heard, list[tuple[int, int]]()
        self._producer, self._world, self._rewarded = producer, world, rewarded

    def visit(self, visit: int, context: np.ndarray) -> int:
        """The banner that a visitor sees; a click on it is sent some visits later."""
        arm = self._rewarded.policy.choose(context)
        self._send(DECISIONS, {"visit": visit, "arm": arm, "context": context.tolist()})
        if self._world.clicks(self._world.chances(context)[arm]):
            self.told.append((visit + self._world.delay(WITHIN), visit))
        for at, clicked in [click for click in self.told if click[0] <= visit]:
            self.told.remove((at, clicked))
            self._send(CLICKS, {"visit": clicked, "at": at})
        return arm

    def catch_up(self) -> None:
        """Wait until every record that was sent has been read back, then learn from decisions whose reward is final."""
        self._producer.flush()
        limit = time.monotonic() + PATIENCE_SECONDS
        while self._rewarded.heard < self.sent and time.monotonic() < limit:
            time.sleep(0.001)
        self._rewarded.settle()

    def _send(self, topic: str, said: dict[str, object]) -> None:
        self._producer.send(topic, said, key=str(said["visit"]))
        self.sent += 1


def run(broker: str, visits: int, seed: int = 0) -> tuple[dict[str, float], Rewarded]:
    """The regret of each policy over `visits` visits; a restart on the same log restores the policy."""
    for topic in (DECISIONS, CLICKS):
        ensure_compacted_topic(broker, topic)
    world, chance = World(seed=seed), np.random.default_rng(seed)
    rewarded = Rewarded(Thompson(world.arms, world.size, seed=seed), WITHIN)
    lost = dict.fromkeys(("random", "thompson", "oracle"), 0.0)
    with Producer(broker) as producer, TailingConsumer(broker, [DECISIONS, CLICKS], rewarded.apply) as follower:
        follower.wait_until_caught_up(PATIENCE_SECONDS)
        rewarded.settle()
        shop = Shop(producer, world, rewarded)
        for visit in range(rewarded.visits, rewarded.visits + visits):
            context = world.visitor()
            chances, arm = world.chances(context), shop.visit(visit, context)
            chosen = {"random": chance.integers(world.arms), "thompson": arm, "oracle": np.argmax(chances)}
            lost = {name: lost[name] + regret(chances, int(arm)) for name, arm in chosen.items()}
            if visit % EVERY == EVERY - 1:
                shop.catch_up()
        shop.catch_up()
    return lost, rewarded


def text(visits: int, lost: dict[str, float], rewarded: Rewarded) -> str:
    """The summary of a run as text."""
    rows = [f"{name:<12}{value:>8.1f}{value / lost['random']:>12.0%}" for name, value in lost.items()]
    head = f"{visits:,} visits, {rewarded.clicked:,} clicks in time; a click counts within {WITHIN} visits, known then"
    return "\n".join([head, f"{'policy':<12}{'regret':>8}{'of random':>12}", *rows])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--visits", type=int, default=10_000)
    parser.add_argument("--broker", help="HOST:PORT of your Kafka; default: start one for the run")
    options = parser.parse_args()
    if options.broker:
        print(text(options.visits, *run(options.broker, options.visits)))
    else:
        with tempfile.TemporaryDirectory() as state, EmbeddedBroker(Path(state), port=0) as running:
            print(text(options.visits, *run(running.address, options.visits)))
