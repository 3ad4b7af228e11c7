"""Creates a table or prefix of each kind of target on the servers of the tests."""

from pathlib import Path

import pytest

import headrace as hr
from headrace.declare.sinks.target import Target


def new_target(kind: str, name: str, request: pytest.FixtureRequest) -> Target:
    """A target that has nothing yet; files are in the test's own folder."""
    monkeypatch: pytest.MonkeyPatch = request.getfixturevalue("monkeypatch")
    folder: Path = request.getfixturevalue("tmp_path")
    if kind == "postgres":
        monkeypatch.setenv("PG_URL", request.getfixturevalue("postgres").url)
        return hr.Postgres("env:PG_URL", table=name)
    if kind == "redis":
        monkeypatch.setenv("REDIS_URL", request.getfixturevalue("own_redis").url)
        return hr.Redis("env:REDIS_URL", prefix=name)
    if kind == "clickhouse":
        monkeypatch.setenv("CLICKHOUSE_URL", request.getfixturevalue("clickhouse").url)
        return hr.ClickHouse("env:CLICKHOUSE_URL", table=name)
    return hr.Iceberg(str(folder), table=name) if kind == "iceberg" else hr.Delta(str(folder / name))
