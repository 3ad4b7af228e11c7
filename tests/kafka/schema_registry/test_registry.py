"""The client speaks the protocol of Confluent's registry; its errors contain no secret."""

from uuid import uuid4

import pytest

import headrace as hr
from headrace.declare.streams.stream import Stream
from headrace.kafka.schema_registry.compatibility import (
    IncompatibleSchemaError,
    check_compatibility,
    require_compatible,
)
from headrace.kafka.schema_registry.registry_client import (
    AUTH_VARIABLE,
    RegistryRefused,
    RegistryUnavailable,
    SchemaRegistryClient,
    create_registry_client,
)
from headrace.kafka.schema_registry.schema_lookup import RegistrySchemaLookup, SubjectMissing
from tests.kafka.avro import field, logical, optional, schema

BASE = (field("id", "string"), field("card", "string"), field("at", logical("timestamp-micros")))
V1 = schema(*BASE, field("amount", "float"))
V2 = schema(*BASE, field("amount", "double"), optional("channel", "string"))
WRONG = schema(*BASE, field("amount", "string"))


@pytest.fixture
def subject() -> str:
    return f"taps-{uuid4().hex[:8]}-value"


COLUMNS = "id string, card string, amount double, at timestamp"


def stream(registry: SchemaRegistryClient, subject: str, columns: str | None = COLUMNS, **settings: object) -> Stream:
    return hr.Stream(
        "taps", schema=columns, id="id", key="card", time="at", format="avro", registry=registry.url, subject=subject,
        **settings,  # type: ignore[arg-type]
    )  # fmt: skip


def test_what_is_registered_is_found_by_id_and_by_version(registry: SchemaRegistryClient, subject: str) -> None:
    assert registry.get_versions(subject) == ()
    assert registry.get_latest_version(subject) is None
    first = registry.register_schema(subject, "AVRO", V1)
    assert registry.register_schema(subject, "AVRO", V1) == first
    second = registry.register_schema(subject, "AVRO", V2)
    found = registry.get_schema(second)
    assert found is not None
    assert (found.id, found.kind) == (second, "AVRO")
    assert [(one.number, one.schema.id) for one in registry.get_versions(subject)] == [(1, first), (2, second)]
    assert registry.list_version_numbers(subject) == (1, 2)
    assert registry.get_schema(999_999) is None


def test_a_schema_the_subject_does_not_take_is_refused_with_why(registry: SchemaRegistryClient, subject: str) -> None:
    registry.register_schema(subject, "AVRO", V1)
    registry.set_compatibility(subject, "BACKWARD")
    assert registry.get_compatibility(subject) == "BACKWARD"
    assert registry.check_compatibility(subject, "AVRO", V2) == []
    assert registry.check_compatibility(subject, "AVRO", WRONG)
    with pytest.raises(RegistryRefused, match="answers 409"):
        registry.register_schema(subject, "AVRO", WRONG)


def test_a_stream_is_refused_for_the_field_that_its_newest_version_breaks(
    registry: SchemaRegistryClient, subject: str
) -> None:
    assert "no version of" in check_compatibility(stream(registry, subject)).warnings[0]
    registry.register_schema(subject, "AVRO", V1)
    registry.set_compatibility(subject, "NONE")
    registry.register_schema(subject, "AVRO", WRONG)
    found = check_compatibility(stream(registry, subject))
    assert found.errors == ()
    assert "field amount: it is written as string" in found.warnings[0]
    with pytest.raises(
        IncompatibleSchemaError, match=r"version 2 of .* cannot be read: field amount: it is written as string"
    ):
        require_compatible(stream(registry, subject, compatibility="backward"))
    registry.register_schema(subject, "AVRO", V2)
    assert check_compatibility(stream(registry, subject, compatibility="backward")).errors == ()
    assert len(check_compatibility(stream(registry, subject, compatibility="backward_transitive")).errors) == 1


def test_forward_asks_whether_readers_of_a_version_could_read_the_columns(
    registry: SchemaRegistryClient, subject: str
) -> None:
    registry.register_schema(subject, "AVRO", V2)
    columns = "id string, card string, at timestamp"
    assert check_compatibility(stream(registry, subject, columns, compatibility="backward")).errors == ()
    (refused,) = check_compatibility(stream(registry, subject, columns, compatibility="full")).errors
    assert "field amount: it is not among the columns" in refused


def test_a_schema_that_is_left_out_comes_from_the_subject_and_is_kept(
    registry: SchemaRegistryClient, subject: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    state = tmp_path_factory.mktemp("state")
    encoded = stream(registry, subject).encoding
    assert encoded is not None
    with pytest.raises(SubjectMissing, match="has no subject"):
        RegistrySchemaLookup(state, asks_registry=True)(encoded)
    registry.register_schema(subject, "AVRO", V1)
    assert (
        RegistrySchemaLookup(state, asks_registry=True, writes_cache=True)(encoded).ddl
        == "`id` string, `card` string, `at` timestamp, `amount` float"
    )
    registry.register_schema(subject, "AVRO", V2)
    assert RegistrySchemaLookup(state)(encoded).version == 1
    assert RegistrySchemaLookup(state, asks_registry=True)(encoded).version == 2
    away = type(encoded)(encoded.format, "http://127.0.0.1:1", encoded.subject)
    assert RegistrySchemaLookup(state, asks_registry=True)(away).version == 1
    with pytest.raises(SubjectMissing, match="Without it the columns"):
        RegistrySchemaLookup(tmp_path_factory.mktemp("other"))(away)


def test_nobody_there_is_away_and_a_password_is_never_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGISTRY", "http://me:s3cret@127.0.0.1:1/base/")
    found = create_registry_client("env:REGISTRY")
    assert found.url == "http://127.0.0.1:1/base"
    assert "s3cret" not in repr(found)
    assert found._headers(False)["Authorization"].startswith("Basic ")
    monkeypatch.setenv(AUTH_VARIABLE, "you:other")
    with pytest.raises(RegistryUnavailable, match=r"No schema registry answers at http://127.0.0.1:1/base") as away:
        found.get_schema(1)
    assert "s3cret" not in str(away.value)
    with pytest.raises(RegistryRefused, match="the variable NOWHERE has no address"):
        create_registry_client("env:NOWHERE")


def test_who_answers_and_is_no_registry_is_said(registry: SchemaRegistryClient) -> None:
    place = registry.url.partition("/apis")[0]
    with pytest.raises(RegistryRefused, match="is no schema registry"):
        create_registry_client(f"{place}/nowhere").list_version_numbers("taps-value")
