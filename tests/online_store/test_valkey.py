"""The Redis store's contract on Valkey: the same tests, with another server."""

from collections.abc import Iterator

import pytest
import redis

from tests.online_store.redis.test_redis_store import (
    reads,
    test_fields_of_another_layout_are_removed_when_the_longest_window_has_passed,
    test_fields_that_no_window_holds_are_removed_and_hashes_expire,
    test_scripts_that_redis_has_forgotten_are_loaded_again,
)
from tests.online_store.test_shared_store import (
    test_a_place_is_only_moved_where_there_is_one,
    test_a_shared_store_answers_as_memory_does,
    test_one_batch_may_hold_more_entities_than_are_asked_for_at_once,
    test_the_greater_n_wins,
)
from tests.server.test_redis import test_many_keys_are_read_in_pieces, test_redis_is_served_as_memory_is
from tests.servers import OwnValkey

__all__ = [
    "reads",
    "test_a_place_is_only_moved_where_there_is_one",
    "test_a_shared_store_answers_as_memory_does",
    "test_fields_of_another_layout_are_removed_when_the_longest_window_has_passed",
    "test_fields_that_no_window_holds_are_removed_and_hashes_expire",
    "test_many_keys_are_read_in_pieces",
    "test_one_batch_may_hold_more_entities_than_are_asked_for_at_once",
    "test_redis_is_served_as_memory_is",
    "test_scripts_that_redis_has_forgotten_are_loaded_again",
    "test_the_greater_n_wins",
]


@pytest.fixture(scope="module")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    server = OwnValkey(tmp_path_factory.mktemp("valkey"))
    server.start()
    yield server.url
    server.stop()


def test_the_server_is_a_valkey(redis_url: str) -> None:
    with redis.Redis.from_url(redis_url) as client:
        assert client.info()["server_name"] == "valkey"
        assert client.info()["valkey_version"]
