"""Section anchor: `/features` from memory and Redis, and `/predict`, against Feast's own server on the same Redis.

round 1   Feast ▸ memory ▸ Redis ▸ /predict     a ratio is one of two servers of the same round
round 2   Feast ▸ memory ▸ Redis ▸ /predict     figures are medians over the rounds
"""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from statistics import median

from bench.entities import PATTERNS, Cards, card
from bench.errors import BenchFailed, Skipped
from bench.parts import NO_REDIS, Server, own_redis, redis_program, serving
from bench.peers.feast.server import WORKERS, Feast, feast_server
from bench.peers.feast.setup import FEAST
from bench.results import Goal, Result, Table
from bench.scoring import EVENT, PATH, score_of
from bench.section import Run
from bench.serve import FULL, QUICK, VISITS_AN_HOUR, WARM_UP_SECONDS, Rounds, Size, rounds_of, stores_of
from bench.truth import Vector, differences, vector
from bench.wrk import Answered, Question, ask, medians, require_wrk
from headrace.embedded_servers.ports import HOST

PEER, PREDICT = "Feast", "/predict"
CONNECTIONS = 8
OWN_WORKERS = 2
TIMES_THE_RATE = {"memory": 10, "Redis": 6, PREDICT: 5}
SHARE_OF_P99 = {"memory": 1 / 5, "Redis": 1 / 5}
SCORED_ALIKE = 1e-5
TRIED = (1, 42, PATTERNS + 7)  # cards whose answers are looked at before anything is measured
NOTE = (
    f"{CONNECTIONS} connections, one random card of {{cards:,}} and ten features a request, the same wrk for all. "
    f"Feast {{version}} is `feast serve --workers {WORKERS}` in its own environment and reads one finished vector; "
    f"Headrace is `serve --workers {OWN_WORKERS}` and merges some twenty tiles, or gives an answer again until a tile "
    "changes, enters a window or leaves one; “each anew” is the same server that keeps none. "
    "All share one Redis, and cores with wrk. "
    "/predict reads the same ten features from memory, merges them with the payment's amount and scores 100 trees of "
    "LightGBM; what it predicts is not written down here, as there is no broker. "
    "Before the first round, answers of each were compared with what was written, scores with LightGBM's own."
)


@dataclass(frozen=True)
class Beside:
    """A server's figures, and the ratios of its rate and its P99 to Feast's."""

    answered: Answered
    times_the_rate: float
    share_of_p99: float


def measure(run: Run) -> Result:
    """Run the section."""
    require_wrk()
    size = QUICK if run.quick else FULL
    with _servers(run, size) as questions:
        run.say(f"warming up {len(questions)} servers, {size.cards:,} cards each")
        for question in questions.values():
            ask(question, CONNECTIONS, WARM_UP_SECONDS, size.cards)
        rounds = rounds_of(run, size, questions, CONNECTIONS)
    return result(rounds, size.cards)


@contextmanager
def _servers(run: Run, size: Size) -> Iterator[dict[str, Question]]:
    if redis_program() is None:
        raise Skipped(NO_REDIS)
    run.say("setting Feast up in an environment of its own")
    programs = FEAST.set_up()
    with ExitStack() as stack:
        redis_url = stack.enter_context(own_redis(run.folder))
        now_us = time.time_ns() // 1000
        source = Cards(now_us, VISITS_AN_HOUR)
        stores = stack.enter_context(stores_of(run.folder, size.cards, redis_url, now_us, OWN_WORKERS))
        predict = stack.enter_context(_predict_server(run.folder, size.cards, now_us))
        vectors = _vectors(source, size.cards, now_us)
        feast = stack.enter_context(feast_server(programs, run.folder / "feast", redis_url, vectors))
        for name, server in stores.items():
            _require_counted(name, server, source)
        _require_scored(predict, source)
        _require_written(feast, vectors)
        ours = {name: server.question for name, server in stores.items()}
        yield {PEER: feast.question, **ours, PREDICT: predict}


@contextmanager
def _predict_server(folder: Path, cards: int, now_us: int) -> Iterator[Question]:
    filling = ("--cards", str(cards), "--visits", str(VISITS_AN_HOUR), "--now", str(now_us))
    with serving(folder, "predict", *filling, str(folder), workers=OWN_WORKERS) as server:
        yield Question(f"http://{HOST}:{server.filled.port}{PATH}", EVENT)


def _vectors(source: Cards, cards: int, now_us: int) -> dict[str, Vector]:
    """The features of every card at a time; Feast's columns have no nulls."""
    counted = [vector(source.payments(number), now_us) for number in range(PATTERNS)]
    filled = [{name: value or 0 for name, value in one.items()} for one in counted]
    return {card(number): filled[number % PATTERNS] for number in range(cards)}


def _require_counted(name: str, server: Server, source: Cards) -> None:
    """Require that our server returns the features counted from the payments."""
    for number in TRIED:
        said = json.loads(server.question.answer(card(number)))
        at_us = round(datetime.fromisoformat(said["as_of"]).timestamp() * 1e6)
        found = differences(said["rows"][0]["values"], vector(source.payments(number), at_us))
        if found:
            raise BenchFailed(f"{name} answered wrongly for {card(number)}: {'; '.join(found)}.")


def _require_scored(predict: Question, source: Cards) -> None:
    """Require that a score is LightGBM's own, of features counted at a time within the request."""
    for number in TRIED:
        asked_us = time.time_ns() // 1000
        said = json.loads(predict.answer(card(number)))
        moments = (asked_us, time.time_ns() // 1000)
        found = [differences(said["features"], vector(source.payments(number), at_us)) for at_us in moments]
        if all(found):
            raise BenchFailed(f"{PREDICT} answered wrongly for {card(number)}: {'; '.join(found[0])}.")
        right = score_of(said["features"])
        if abs(said["score"] - right) > SCORED_ALIKE:
            raise BenchFailed(f"{PREDICT} scored {card(number)} {said['score']} instead of {right}.")


def _require_written(feast: Feast, vectors: Mapping[str, Vector]) -> None:
    """Require that Feast returns the written values."""
    for number in TRIED:
        found = differences(feast.vector(card(number)), vectors[card(number)])
        if found:
            raise BenchFailed(f"{PEER} answered wrongly for {card(number)}: {'; '.join(found)}.")


def beside(rounds: Rounds) -> dict[str, Beside]:
    """The medians of each server over the rounds, and its ratios to Feast."""
    return {
        name: Beside(
            medians([one[name] for one in rounds]),
            median(one[name].requests_a_second / one[PEER].requests_a_second for one in rounds),
            median(one[name].p99_ms / one[PEER].p99_ms for one in rounds),
        )
        for name in rounds[0]
    }


def result(rounds: Rounds, cards: int) -> Result:
    """The section's table, goals and figures."""
    found = beside(rounds)
    head = ["answers", "workers", "requests/s", "of Feast's", "P50", "P99", "of Feast's"]
    return Result(
        section="anchor",
        table=Table(head, [_row(name, one) for name, one in found.items()]),
        figures={name: asdict(one) for name, one in found.items()},
        goals=[*_goals(found)],
        notes=[NOTE.format(cards=cards, version=FEAST.version())],
    )


def _row(name: str, one: Beside) -> list[str]:
    figures = one.answered
    return [
        name,
        str(WORKERS if name == PEER else OWN_WORKERS),
        f"{figures.requests_a_second:,.0f}",
        f"{one.times_the_rate:.1f}×",
        f"{figures.p50_ms:.2f} ms",
        f"{figures.p99_ms:.2f} ms",
        f"{one.share_of_p99:.2f}×",
    ]


def _goals(found: Mapping[str, Beside]) -> Iterator[Goal]:
    for name, times in TIMES_THE_RATE.items():
        rate = found[name].times_the_rate
        yield Goal(f"{name} at least {times} times Feast's requests/s", f"{rate:.1f}×", rate >= times)
    for name, share in SHARE_OF_P99.items():
        p99 = found[name].share_of_p99
        yield Goal(f"{name} at most {share:.2f} of Feast's P99", f"{p99:.2f}×", p99 <= share)
