"""A registry is asked as Confluent's is, and what goes wrong is said without a secret."""

from uuid import uuid4

import pytest

import headrace as hr
from headrace.declare.stream import Stream
from headrace.log.schemas.compatible import Incompatible, compatible, require_compatible
from headrace.log.schemas.registry import AUTH, Registry, RegistryAway, RegistryRefused, registry_at
from headrace.log.schemas.subjects import NoSubject, Subjects
from tests.log.avro import field, logical, optional, schema

BASE = (field("id", "string"), field("card", "string"), field("at", logical("timestamp-micros")))
V1 = schema(*BASE, field("amount", "float"))
V2 = schema(*BASE, field("amount", "double"), optional("channel", "string"))
WRONG = schema(*BASE, field("amount", "string"))


@pytest.fixture
def subject() -> str:
    return f"taps-{uuid4().hex[:8]}-value"


COLUMNS = "id string, card string, amount double, at timestamp"


def stream(registry: Registry, subject: str, columns: str | None = COLUMNS, **settings: object) -> Stream:
    return hr.Stream(
        "taps", schema=columns, id="id", key="card", time="at", format="avro", registry=registry.url, subject=subject,
        **settings,  # type: ignore[arg-type]
    )  # fmt: skip


def test_what_is_registered_is_found_by_id_and_by_version(registry: Registry, subject: str) -> None:
    assert registry.versions(subject) == ()
    assert registry.latest(subject) is None
    first = registry.register(subject, "AVRO", V1)
    assert registry.register(subject, "AVRO", V1) == first
    second = registry.register(subject, "AVRO", V2)
    found = registry.by_id(second)
    assert found is not None
    assert (found.id, found.kind) == (second, "AVRO")
    assert [(one.number, one.schema.id) for one in registry.versions(subject)] == [(1, first), (2, second)]
    assert registry.numbers(subject) == (1, 2)
    assert registry.by_id(999_999) is None


def test_a_schema_the_subject_does_not_take_is_refused_with_why(registry: Registry, subject: str) -> None:
    registry.register(subject, "AVRO", V1)
    registry.set_level(subject, "BACKWARD")
    assert registry.level(subject) == "BACKWARD"
    assert registry.objections(subject, "AVRO", V2) == []
    assert registry.objections(subject, "AVRO", WRONG)
    with pytest.raises(RegistryRefused, match="answers 409"):
        registry.register(subject, "AVRO", WRONG)


def test_a_stream_is_refused_for_the_field_that_its_newest_version_breaks(registry: Registry, subject: str) -> None:
    assert "no version of" in compatible(stream(registry, subject)).warned[0]
    registry.register(subject, "AVRO", V1)
    registry.set_level(subject, "NONE")
    registry.register(subject, "AVRO", WRONG)
    found = compatible(stream(registry, subject))
    assert found.refused == ()
    assert "field amount: it is written as string" in found.warned[0]
    with pytest.raises(Incompatible, match=r"version 2 of .* cannot be read: field amount: it is written as string"):
        require_compatible(stream(registry, subject, compatibility="backward"))
    registry.register(subject, "AVRO", V2)
    assert compatible(stream(registry, subject, compatibility="backward")).refused == ()
    assert len(compatible(stream(registry, subject, compatibility="backward_transitive")).refused) == 1


def test_forward_asks_whether_readers_of_a_version_could_read_the_columns(registry: Registry, subject: str) -> None:
    registry.register(subject, "AVRO", V2)
    columns = "id string, card string, at timestamp"
    assert compatible(stream(registry, subject, columns, compatibility="backward")).refused == ()
    (refused,) = compatible(stream(registry, subject, columns, compatibility="full")).refused
    assert "field amount: it is not among the columns" in refused


def test_a_schema_that_is_left_out_comes_from_the_subject_and_is_kept(
    registry: Registry, subject: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    state = tmp_path_factory.mktemp("state")
    encoded = stream(registry, subject).encoded
    assert encoded is not None
    with pytest.raises(NoSubject, match="has no subject"):
        Subjects(state, asks=True)(encoded)
    registry.register(subject, "AVRO", V1)
    assert (
        Subjects(state, asks=True, keeps=True)(encoded).ddl
        == "`id` string, `card` string, `at` timestamp, `amount` float"
    )
    registry.register(subject, "AVRO", V2)
    assert Subjects(state)(encoded).version == 1
    assert Subjects(state, asks=True)(encoded).version == 2
    away = type(encoded)(encoded.format, "http://127.0.0.1:1", encoded.subject)
    assert Subjects(state, asks=True)(away).version == 1
    with pytest.raises(NoSubject, match="Without it nobody knows the columns"):
        Subjects(tmp_path_factory.mktemp("other"))(away)


def test_nobody_there_is_away_and_a_password_is_never_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGISTRY", "http://me:s3cret@127.0.0.1:1/base/")
    found = registry_at("env:REGISTRY")
    assert found.url == "http://127.0.0.1:1/base"
    assert "s3cret" not in repr(found)
    assert found._headers(False)["Authorization"].startswith("Basic ")
    monkeypatch.setenv(AUTH, "you:other")
    with pytest.raises(RegistryAway, match=r"No schema registry answers at http://127.0.0.1:1/base") as away:
        found.by_id(1)
    assert "s3cret" not in str(away.value)
    with pytest.raises(RegistryRefused, match="the variable NOWHERE has no address"):
        registry_at("env:NOWHERE")


def test_who_answers_and_is_no_registry_is_said(registry: Registry) -> None:
    place = registry.url.partition("/apis")[0]
    with pytest.raises(RegistryRefused, match="is no schema registry"):
        registry_at(f"{place}/nowhere").numbers("taps-value")
