"""Topic ownership: one app writes a topic, whatever the start order, until another app takes it over."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any
from uuid import uuid4

import orjson
import pytest

import headrace as hr
from headrace.declare.app import App, build_app
from headrace.declare.name_collisions import list_written_topics
from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.kafka.record import ConsumerRecord
from headrace.kafka.topic_owners import (
    OwnershipConflictError,
    TopicOwner,
    TopicOwnership,
    claim_topics,
    hold_topics,
    read_ownership,
    require_no_other_owner,
)
from headrace.runtime.topic_claims import EXCLUSIVE_PARTS, hold_part_topics, part_topics, topic_owner
from tests.runtime.test_settings import settings
from tests.waiting import wait_until

A, B = TopicOwner("a" * 32, "shop", "host-a"), TopicOwner("b" * 32, "risk", "host-b")


def claimed(*claims: tuple[TopicOwner, dict[str, int]] | str) -> TopicOwnership:
    """The owners after claims in this order, each with its number as its key; a text withdraws that one."""
    owners = TopicOwnership()
    for number, claim in enumerate(claims):
        if isinstance(claim, str):
            owners.apply_claims([ConsumerRecord("t", 0, number, 0, claim.encode(), None, None)])
            continue
        owner, topics = claim
        said = {"id": owner.id, "app": owner.app, "host": owner.host, "since_us": 1, "topics": topics}
        owners.apply_claims([ConsumerRecord("t", 0, number, 0, str(number).encode(), orjson.dumps(said), None)])
    return owners


def holder(owners: TopicOwnership, topic: str = "x") -> str | None:
    found = owners.current_owner(topic)[0]
    return found and found.app


def test_the_first_claim_of_an_epoch_counts() -> None:
    assert holder(claimed((A, {"x": 1}), (B, {"x": 1}))) == "shop"
    assert holder(claimed((B, {"x": 1, "y": 1}), (A, {"x": 1}))) == "risk"
    assert holder(claimed()) is None


def test_a_greater_epoch_takes_over_and_the_first_of_two_does() -> None:
    assert holder(claimed((A, {"x": 1}), (B, {"x": 2}))) == "risk"
    assert holder(claimed((A, {"x": 1}), (B, {"x": 2}), (A, {"x": 2}))) == "risk"
    assert holder(claimed((A, {"x": 1}), (B, {"x": 2}), (A, {"x": 3}))) == "shop"


def test_a_claim_that_was_withdrawn_counts_no_more() -> None:
    owners = claimed((A, {"x": 1}), (B, {"x": 1, "y": 1}), "1")
    assert (holder(owners, "x"), holder(owners, "y")) == ("shop", None)


@pytest.mark.parametrize("value", [b"", b"no json", b"[]", b'{"id": "x"}', b'{"topics": 1}'])
def test_what_is_no_claim_is_passed_over(value: bytes) -> None:
    owners = claimed((A, {"x": 1}))
    owners.apply_claims(
        [ConsumerRecord("t", 0, 9, 0, b"9", value, None), ConsumerRecord("t", 0, 10, 0, None, value, None)]
    )
    assert holder(owners) == "shop"


def topics() -> list[str]:
    return [f"owned-{uuid4().hex[:8]}.{word}" for word in ("clean", "late", "dead", "dropped")]


def test_a_second_app_is_refused_with_who_holds_the_topic_and_what_to_do(broker: EmbeddedBroker) -> None:
    wanted = topics()
    claim_topics(broker.address, A, wanted)
    claim_topics(broker.address, A, wanted)
    with pytest.raises(OwnershipConflictError) as refused:
        claim_topics(broker.address, B, wanted)
    said = str(refused.value)
    assert said.startswith(f"'{wanted[0]}', ")
    for told in ("and 1 more", "the app 'shop' on host-a since 20", A.id, "--take-over"):
        assert told in said
    with pytest.raises(OwnershipConflictError):
        require_no_other_owner(broker.address, B, wanted[:1])
    require_no_other_owner(broker.address, A, wanted)


def test_one_state_folder_with_an_app_of_another_name_is_another_owner(broker: EmbeddedBroker) -> None:
    wanted = topics()
    claim_topics(broker.address, A, wanted)
    with pytest.raises(OwnershipConflictError):
        claim_topics(broker.address, TopicOwner(A.id, "renamed"), wanted)
    claim_topics(broker.address, TopicOwner(A.id, "renamed"), wanted, take_over=True)


def test_of_apps_that_start_at_the_same_moment_one_gets_everything(broker: EmbeddedBroker) -> None:
    wanted, start = topics(), threading.Barrier(6)

    def begin(number: int) -> bool:
        start.wait()
        try:
            claim_topics(broker.address, TopicOwner(f"{number}" * 32, f"app {number}"), wanted[number % 2 :])
        except OwnershipConflictError:
            return False
        return True

    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(begin, range(6))).count(True) == 1
    holders = {read_ownership(broker.address).current_owner(topic)[0] for topic in wanted[1:]}
    assert len(holders) == 1


def test_who_loses_a_topic_is_told_and_cannot_start_again(broker: EmbeddedBroker) -> None:
    wanted, lost = topics(), threading.Event()
    claim_topics(broker.address, A, wanted)

    def run() -> None:
        with hold_topics(broker.address, A, wanted, lost.set):
            assert not lost.is_set()
            claim_topics(broker.address, B, wanted[:1], take_over=True)
            wait_until(lost.is_set, limit_s=60, what="the loser to be told")

    with pytest.raises(OwnershipConflictError, match="'risk'"):
        run()
    with pytest.raises(OwnershipConflictError, match="'risk'"):
        claim_topics(broker.address, A, wanted)


def shop(name: str) -> App:
    x = hr.Stream(name, schema="id string, k string, v double, at timestamp", id="id", key="k", time="at")
    view = hr.features(x, by="k")(type(f"V{uuid4().hex[:8]}", (), {"n": hr.count(windows="1h")}))
    visits = hr.windowed(f"{name}-visits", x, by="k", over=hr.Tumbling("1m"), n=hr.count())
    module = ModuleType("shop")
    vars(module).update(x=x, view=view, visits=visits, abroad=hr.derive(x, name=f"{name}-abroad")(lambda frame: frame))
    return build_app(module)


def test_parts_that_claim_write_different_topics_and_all_of_them_are_the_apps() -> None:
    app = shop("x")
    by_part = {part: set(part_topics(app, part)) for part in EXCLUSIVE_PARTS}
    assert not by_part["stream"] & by_part["operate"]
    served = {view.served for view in app.views}
    assert by_part["stream"] | by_part["operate"] | served == set(list_written_topics(app))


def run_part(app: App, broker: EmbeddedBroker, state: Path, part: str, **more: Any) -> None:
    with hold_part_topics(
        app, replace(settings(), broker=broker.address, state=state, **more), part, threading.Event()
    ):
        pass


def test_parts_of_one_app_run_beside_each_other_and_on_other_machines(broker: EmbeddedBroker, tmp_path: Path) -> None:
    app = shop(f"owned-{uuid4().hex[:8]}")
    run_part(app, broker, tmp_path / "one", "stream")
    run_part(app, broker, tmp_path / "one", "stream")
    run_part(app, broker, tmp_path / "one", "operate")
    for part in ("score", "lake", "evaluate", "serve", "sink"):
        run_part(app, broker, tmp_path / "other", part)
    with pytest.raises(OwnershipConflictError, match="the app 'shop'"):
        run_part(app, broker, tmp_path / "other", "stream")
    run_part(app, broker, tmp_path / "other", "stream", take_over=True)


def test_the_id_of_a_state_folder_stays_and_one_is_made_by_the_first_of_many(tmp_path: Path) -> None:
    app = shop("x")
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(lambda _: topic_owner(app, tmp_path / "state").id, range(32)))
    assert len(found) == 1
    assert [file.name for file in (tmp_path / "state").iterdir()] == ["app.id"]
