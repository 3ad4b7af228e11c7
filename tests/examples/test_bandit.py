"""A policy with delayed rewards comes near the oracle; replayed from the log it has the same state."""

import json

import numpy as np
import pytest
from banners import CLICKS, DECISIONS, WITHIN, run, text
from rewards import Rewarded
from thompson import Thompson, World, regret

from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.kafka.consumers.last_records import LastRecordsReader
from headrace.kafka.record import ConsumerRecord


def record(topic: str, **said: object) -> ConsumerRecord:
    return ConsumerRecord(topic, 0, 0, 0, None, json.dumps(said).encode(), None)


def test_an_arm_that_is_better_in_a_context_is_chosen_in_it() -> None:
    policy, here, there = Thompson(2, 2), np.array([1.0, 0.0]), np.array([1.0, 1.0])
    for _ in range(300):
        for arm, context, reward in ((0, here, 0.9), (1, here, 0.1), (0, there, 0.1), (1, there, 0.9)):
            policy.learn(arm, context, reward)
    assert [policy.choose(here) for _ in range(20)] == [0] * 20
    assert [policy.choose(there) for _ in range(20)] == [1] * 20


def test_a_reward_counts_in_time_once_and_in_any_order() -> None:
    decisions = [record(DECISIONS, visit=visit, arm=visit % 2, context=[1.0, visit % 3]) for visit in range(8)]
    clicks = [record(CLICKS, visit=visit, at=at) for visit, at in ((0, 3), (1, 4), (2, 9), (4, 7))]
    learned = []
    for records in (decisions + clicks, clicks + decisions, [*decisions, *clicks, *decisions, *clicks]):
        rewarded = Rewarded(Thompson(2, 2), within=3)
        rewarded.apply(records)
        rewarded.settle()
        learned.append(rewarded)
    assert [one.clicked for one in learned] == [3, 3, 3]  # of visits 0 to 4 three were clicked in time, one too late
    by_hand = Thompson(2, 2)
    for visit, reward in enumerate([1.0, 1.0, 0.0, 0.0, 1.0]):
        by_hand.learn(visit % 2, np.array([1.0, visit % 3]), reward)
    for one in learned:
        assert np.array_equal(one.policy.precision, by_hand.precision)
        assert np.array_equal(one.policy.rewarded, by_hand.rewarded)


def test_the_regret_is_far_below_chance_though_rewards_come_late() -> None:
    world, policy, chance, waiting = World(), Thompson(4, 6), np.random.default_rng(1), []
    lost = {"random": 0.0, "thompson": 0.0}
    for visit in range(4_000):
        context = world.visitor()
        chances, arm = world.chances(context), policy.choose(context)
        lost["thompson"] += regret(chances, arm)
        lost["random"] += regret(chances, int(chance.integers(world.arms)))
        waiting.append((arm, context, float(world.clicks(chances[arm]))))
        if visit >= WITHIN:
            policy.learn(*waiting.pop(0))
    assert lost["thompson"] < 0.4 * lost["random"]


def test_the_example_learns_through_the_log_and_goes_on_after_a_restart(broker: EmbeddedBroker) -> None:
    lost, rewarded = run(broker.address, 1_000)
    assert lost["oracle"] == 0 < lost["thompson"] < lost["random"]
    assert "1,000 visits" in text(1_000, lost, rewarded)
    replayed = Rewarded(Thompson(4, 6), WITHIN)
    for topic in (CLICKS, DECISIONS):  # the other way round
        replayed.apply(LastRecordsReader(broker.address, topic, 10**6).read_new_records())
    replayed.settle()
    assert np.allclose(replayed.policy.precision, rewarded.policy.precision)
    assert np.allclose(replayed.policy.rewarded, rewarded.policy.rewarded)
    again, further = run(broker.address, 1_000)
    assert further.visits == 2_000
    assert again["thompson"] / again["random"] < lost["thompson"] / lost["random"]
    assert further.clicked == pytest.approx(2 * rewarded.clicked, rel=0.8)
