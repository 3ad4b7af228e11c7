"""A service that writes its business change and the outbox in one transaction: rollbacks and late commits included."""

import random
import threading
import time
from datetime import UTC, datetime
from itertools import count

import orjson
import psycopg

import headrace as hr
from bench.postgres import OwnPostgres
from headrace.connectors.outbox.ddl import outbox_ddl
from headrace.kafka.headers import ID_HEADER
from headrace.kafka.topics import ensure_topics
from tests.connectors.sinks.target_reader import records_of

KEYS = 40
SCHEMA = "id string, account string, version bigint, at timestamp"
_numbers = count()


class Shop:
    """Accounts with a version, an outbox of their changes, and its stream."""

    def __init__(self, postgres: OwnPostgres, broker: str, name: str = "") -> None:
        self.postgres, self.broker = postgres, broker
        self.name = name or f"shop{next(_numbers)}_{random.getrandbits(40)}"
        self.stream = hr.Stream(
            f"{self.name}.changes",
            schema=SCHEMA,
            id="id",
            key="account",
            time="at",
        )
        self.table = f"{self.name}_outbox"
        postgres.ask(outbox_ddl(self.table))
        postgres.ask(f"CREATE TABLE {self.name} (account text PRIMARY KEY, version bigint NOT NULL)")
        postgres.ask(f"INSERT INTO {self.name} SELECT 'a' || n, 0 FROM generate_series(0, {KEYS - 1}) n")
        ensure_topics(broker, [self.stream])

    def change(self, connection: psycopg.Connection, dice: random.Random) -> None:
        """One transaction: in one of ten nothing comes of it, in one of ten it commits late."""
        account = f"a{dice.randrange(KEYS)}"
        try:
            with connection.transaction():
                update = f"UPDATE {self.name} SET version = version + 1 WHERE account = %s RETURNING version"
                ((version,),) = connection.execute(update, [account]).fetchall()
                self.tell(connection, account, version)
                fate = dice.random()
                if fate < 0.1:
                    raise psycopg.Rollback
                if fate < 0.2:
                    time.sleep(dice.uniform(0, 0.02))  # others with a later seq commit meanwhile
        except psycopg.Rollback:
            pass

    def tell(self, connection: psycopg.Connection, account: str, version: int) -> None:
        at = datetime.now(UTC).isoformat()
        event = {"id": f"{account}-{version}", "account": account, "version": version, "at": at}
        connection.execute(
            f"INSERT INTO {self.table} (stream, key, payload) VALUES (%s, %s, %s)",
            [self.stream.name, account, orjson.dumps(event).decode()],
        )

    def versions(self) -> dict[str, int]:
        """What was committed: the last version of each account."""
        return dict(self.postgres.ask(f"SELECT account, version FROM {self.name}"))

    def left(self) -> int:
        """Rows that are still in the outbox."""
        return int(self.postgres.ask(f"SELECT count(*) FROM {self.table}")[0][0])

    def require_told_once(self) -> int:
        """Check that, after deduplication, each account has every version once and in order; counts the duplicates."""
        seen: set[str] = set()
        told: dict[str, list[int]] = {}
        again = 0
        for record in records_of(self.broker, self.stream.name):
            name = ID_HEADER.read_or(record, "")
            if name in seen:
                again += 1
                continue
            seen.add(name)
            event = orjson.loads(record.value or b"")
            assert record.key == event["account"].encode()
            told.setdefault(event["account"], []).append(event["version"])
        assert told == {account: list(range(1, last + 1)) for account, last in self.versions().items() if last}
        return again


class Writing:
    """Some threads that write so many transactions together."""

    def __init__(self, shop: Shop, transactions: int, seed: int = 1, threads: int = 4) -> None:
        self._shop, self._left = shop, iter(range(transactions))
        self._turn = threading.Lock()
        self._threads = [threading.Thread(target=self._write, args=(seed * 100 + n,)) for n in range(threads)]
        for thread in self._threads:
            thread.start()

    @property
    def is_over(self) -> bool:
        return not any(thread.is_alive() for thread in self._threads)

    def finish(self) -> None:
        for thread in self._threads:
            thread.join()

    def _write(self, seed: int) -> None:
        dice = random.Random(seed)
        with psycopg.connect(self._shop.postgres.url, autocommit=True) as connection:
            while self._took():
                self._shop.change(connection, dice)

    def _took(self) -> bool:
        with self._turn:
            return next(self._left, None) is not None
