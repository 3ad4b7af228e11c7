"""A writer of a shop's table: random transactions, some rolled back, and the rows they leave."""

import random
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import psycopg

from bench.postgres import OwnPostgres

KEYS = 300
COUNTRIES = ("FR", "DE", "IT", "ES", "PL")
TABLES = (
    "CREATE TABLE customers (id bigint PRIMARY KEY, country text, credit double precision, since timestamptz)",
    "ALTER TABLE customers REPLICA IDENTITY FULL",
    "CREATE TABLE history (id bigint, op text)",
    # A row whose key changes is another one: the old is deleted, the new created.
    """CREATE FUNCTION noted() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF TG_OP = 'UPDATE' AND OLD.id <> NEW.id THEN INSERT INTO history VALUES (OLD.id, 'd'), (NEW.id, 'i');
        ELSE INSERT INTO history VALUES (coalesce(NEW.id, OLD.id), lower(left(TG_OP, 1))); END IF;
        RETURN NULL; END $$""",
    "CREATE TRIGGER noted AFTER INSERT OR UPDATE OR DELETE ON customers FOR EACH ROW EXECUTE FUNCTION noted()",
)
OPS = {"i": "created", "u": "updated", "d": "deleted"}


def made_shop(postgres: OwnPostgres) -> None:
    """The table with some rows, and the history of everything that is committed after them."""
    for statement in TABLES:
        postgres.ask(statement)
    postgres.ask(
        "INSERT INTO customers SELECT n, 'FR', n, now() FROM generate_series(1, 50) n; TRUNCATE history",
    )


class Shop:
    """Writes random transactions, also to a database that comes and goes."""

    def __init__(self, postgres: OwnPostgres, pause_s: float = 0.0, seed: int = 1) -> None:
        self._postgres, self._pause_s, self._chance = postgres, pause_s, random.Random(seed)
        self._connection: psycopg.Connection[Any] | None = None
        self.changes = 0

    def write(self, changes: int, each: Callable[[int], None] = lambda _: None) -> None:
        """Make the requested number of changes, and sometimes a transaction that is rolled back."""
        while self.changes < changes:
            try:
                self._transaction()
            except psycopg.Error:  # it was killed: what was committed is in its history
                self._connection = None
                time.sleep(0.1)
            each(self.changes)
            time.sleep(self._pause_s)

    def _transaction(self) -> None:
        if self._connection is None or self._connection.closed:
            self._connection = psycopg.connect(self._postgres.url, connect_timeout=2)
        count = self._chance.randint(1, 8)
        for _ in range(count):
            self._connection.execute(*self._statement())
        if self._chance.random() < 0.2:
            self._connection.rollback()
            return
        self._connection.commit()
        self.changes += count

    def _statement(self) -> tuple[Any, tuple[Any, ...]]:
        key, country = self._chance.randint(1, KEYS), self._chance.choice(COUNTRIES)
        credit = self._chance.randint(0, 400) / 4
        kind = self._chance.random()
        if kind < 0.25:
            return "DELETE FROM customers WHERE id = %s", (key,)
        if kind < 0.3:  # the key of a row changes: to everybody else that is another row
            return "UPDATE customers SET id = id + 1000 WHERE id = %s AND id < 1000", (key,)
        upsert = """INSERT INTO customers VALUES (%s, %s, %s, now())
            ON CONFLICT (id) DO UPDATE SET country = excluded.country, credit = excluded.credit"""
        return upsert, (key, country, credit)


def every_key() -> list[int]:
    return [*range(1, KEYS + 1), *range(1001, KEYS + 1001)]


def table_of(postgres: OwnPostgres) -> dict[int, dict[str, Any]]:
    """The result of `select *`, in the format of a view."""
    rows = postgres.ask("SELECT id, country, credit, since FROM customers")
    return {
        key: {"country": country, "credit": credit, "since": since.astimezone(UTC)}
        for key, country, credit, since in rows
    }


def shown_table(answers: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """The same of the server's answers: a key without a row has nothing at all."""
    told = {row["customer"]: row["values"] for row in answers}
    return {
        key: {"country": one["country"], "credit": one["credit"], "since": datetime.fromisoformat(one["since"])}
        for key, one in told.items()
        if one["since"] is not None
    }


def countries_of(rows: dict[int, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The features of each country by brute force."""
    return {
        country: dict(_features([row for row in rows.values() if row["country"] == country])) for country in COUNTRIES
    }


def _features(rows: list[dict[str, Any]]) -> Iterator[tuple[str, Any]]:
    owed = [row["credit"] for row in rows]
    yield "customers_forever", len(owed)
    yield "credit_forever", float(sum(owed)) if owed else None
    yield "least_forever", min(owed, default=None)
    yield "most_forever", max(owed, default=None)
    yield "rich_forever", sum(credit > 50 for credit in owed)


def moves_of(postgres: OwnPostgres) -> dict[int, dict[str, int]]:
    """How often each row was created, updated and deleted, by the database's own history."""
    found = {key: {"created_forever": 0, "updated_forever": 0, "deleted_forever": 0} for key in every_key()}
    for key, op, count in postgres.ask("SELECT id, op, count(*) FROM history GROUP BY 1, 2"):
        found[key][f"{OPS[op]}_forever"] = count
    return found
