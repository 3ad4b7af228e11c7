"""One connection to Redis: responses match their requests; failures are quick, and end with their cause."""

import asyncio
import socket
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import redis
from redis.exceptions import RedisError

from headrace.embedded_servers.ports import HOST, free_port
from headrace.online_store.redis import pipeline
from headrace.online_store.redis.pipeline import PipelinedHashReader, RedisOverloadedError
from tests.servers import OwnRedis


def run(url: str, work: Callable[[PipelinedHashReader], Coroutine[Any, Any, Any]]) -> Any:
    async def with_hashes() -> Any:
        hashes = PipelinedHashReader(url)
        try:
            return await work(hashes)
        finally:
            await hashes.close()

    return asyncio.run(with_hashes())


async def answered(hashes: PipelinedHashReader) -> Any:
    """The first answer of a Redis that is on its way back."""
    async with asyncio.timeout(5):
        while True:
            try:
                return await hashes.read_hashes([b"k"])
            except OSError:
                await asyncio.sleep(0.01)


@pytest.fixture
def filled(redis_url: str) -> str:
    """A Redis with a hundred hashes."""
    client = redis.Redis.from_url(redis_url)
    for number in range(100):
        client.hset(f"pipe:{number}", mapping={"number": number, "twice": 2 * number})
    return redis_url


def test_each_reader_gets_the_hashes_it_asked_for(filled: str) -> None:
    async def work(hashes: PipelinedHashReader) -> list[Any]:
        asked = [hashes.read_hashes([b"pipe:%d" % n, b"pipe:%d" % (99 - n), b"pipe:none"]) for n in range(100)]
        return await asyncio.gather(*asked)

    for number, (first, second, none) in enumerate(run(filled, work)):
        assert first == {b"number": b"%d" % number, b"twice": b"%d" % (2 * number)}
        assert second[b"number"] == b"%d" % (99 - number)
        assert none == {}


def test_a_reader_that_gives_up_does_not_shift_the_answers(filled: str) -> None:
    async def work(hashes: PipelinedHashReader) -> Any:
        await hashes.read_hashes([])
        gone = asyncio.ensure_future(hashes.read_hashes([b"pipe:1"]))
        kept = asyncio.ensure_future(hashes.read_hashes([b"pipe:2"]))
        await asyncio.sleep(0)
        gone.cancel()
        return await kept

    assert run(filled, work)[0][b"number"] == b"2"


def test_what_is_no_hash_is_an_error_and_the_connection_goes_on(redis_url: str) -> None:
    redis.Redis.from_url(redis_url).set("pipe:text", "text")

    async def work(hashes: PipelinedHashReader) -> Any:
        with pytest.raises(RedisError, match="WRONGTYPE"):
            await hashes.read_hashes([b"pipe:none", b"pipe:text"])
        return await hashes.read_hashes([b"pipe:none"])

    assert run(redis_url, work) == [{}]


def test_a_redis_that_came_back_is_read_again(own_redis: OwnRedis) -> None:
    async def work(hashes: PipelinedHashReader) -> Any:
        assert await hashes.read_hashes([b"k"]) == [{}]
        await asyncio.to_thread(own_redis.stop)
        for _ in range(3):
            with pytest.raises((OSError, RedisError)):
                await hashes.read_hashes([b"k"])
        await asyncio.to_thread(own_redis.start)
        return await answered(hashes)

    assert run(own_redis.url, work) == [{}]


def test_the_name_the_password_and_the_database_are_those_of_the_url(own_redis: OwnRedis) -> None:
    admin = redis.Redis.from_url(own_redis.url)
    admin.execute_command("ACL", "SETUSER", "reader", "on", ">p@ss", "~*", "+@all")
    redis.Redis.from_url(own_redis.url.replace("/0", "/3")).hset("k", "in", "three")
    right = own_redis.url.replace("//", "//reader:p%40ss@").replace("/0", "/3")
    assert run(right, lambda hashes: hashes.read_hashes([b"k"])) == [{b"in": b"three"}]
    with pytest.raises(RedisError, match="WRONGPASS"):
        run(right.replace("p%40ss", "other"), lambda hashes: hashes.read_hashes([b"k"]))


def test_nobody_there_is_said_at_once_to_everyone_who_waits() -> None:
    async def work(hashes: PipelinedHashReader) -> list[Any]:
        return await asyncio.gather(*(hashes.read_hashes([b"k"]) for _ in range(50)), return_exceptions=True)

    answers = run(f"redis://{HOST}:{free_port()}", work)
    assert all(isinstance(answer, OSError) and not isinstance(answer, TimeoutError) for answer in answers)


def test_a_redis_that_falls_silent_is_given_up(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "ANSWER_SECONDS", 1.0)
    client = redis.Redis.from_url(redis_url, socket_timeout=None)

    async def work(hashes: PipelinedHashReader) -> None:
        await hashes.read_hashes([b"k"])
        client.client_pause(6_000)
        with pytest.raises(TimeoutError, match="no answer in"):
            await hashes.read_hashes([b"k"])

    run(redis_url, work)
    assert client.ping()  # once the pause is over: other tests ask the same server


def test_a_port_that_never_speaks_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "ANSWER_SECONDS", 0.3)
    with socket.create_server((HOST, 0)) as silent, pytest.raises(TimeoutError):
        run(f"redis://{HOST}:{silent.getsockname()[1]}", lambda hashes: hashes.read_hashes([b"k"]))


def test_more_questions_than_can_be_answered_soon_are_refused(filled: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "MOST_WAITING", 10)

    async def work(hashes: PipelinedHashReader) -> list[Any]:
        await hashes.read_hashes([b"k"])
        return await asyncio.gather(*(hashes.read_hashes([b"pipe:1"]) for _ in range(20)), return_exceptions=True)

    answers = run(filled, work)
    assert sum(isinstance(answer, RedisOverloadedError) for answer in answers) == 9
    assert sum(isinstance(answer, list) for answer in answers) == 11
