"""The store that a URL names, and the errors for one that is not available."""

import sys

import pytest

from headrace.online_store.registry import UnknownStoreError, create_store
from headrace.plugins import DriverMissing


def test_a_driver_that_is_not_installed_is_named_with_what_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("headrace.online_store.cassandra.cassandra_store")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "cassandra", None)
    with pytest.raises(DriverMissing, match=r"needs cassandra\. .*pip install 'headrace\[cassandra\]'"):
        create_store("cassandra://127.0.0.1:9042/headrace", [])


def test_a_store_of_another_kind_is_refused_with_those_there_are() -> None:
    with pytest.raises(UnknownStoreError, match=r"'mongodb://' is not a store\. .*cassandra://HOST:PORT/KEYSPACE"):
        create_store("mongodb://me:secret@127.0.0.1", [])
