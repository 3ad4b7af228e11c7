"""The output of `headrace plan` for streams with a schema registry, and its errors; neither contains a secret."""

from pathlib import Path
from uuid import uuid4

import pytest
from click.testing import CliRunner, Result

from headrace.cli import main
from headrace.declare.streams.encoding import Compatibility
from headrace.kafka.schema_registry.registry_client import AUTH_VARIABLE, TOKEN_VARIABLE, SchemaRegistryClient
from tests.kafka.avro import field, logical, schema

BASE = (field("id", "string"), field("card", "string"), field("at", logical("timestamp-micros")))
V1 = schema(*BASE, field("amount", "float"))
WRONG = schema(*BASE, field("amount", "string"))
NESTED = schema(*BASE, field("tags", {"type": "array", "items": "string"}))
APP = """
import headrace as hr

taps = hr.Stream("{name}", {settings}, id="id", key="card", time="at", registry="{registry}")

@hr.features(taps, by="card")
class Spend:
    spend = hr.sum("amount", windows="1h")
"""


class Planned:
    """An app whose stream has a unique subject."""

    def __init__(self, folder: Path, registry: SchemaRegistryClient) -> None:
        self.folder, self.registry, self.name = folder, registry, f"taps-{uuid4().hex[:8]}"
        self.file, self.subject = folder / "app.py", f"{self.name}-value"

    def plan(self, settings: str = 'format="avro"', registry: str | None = None) -> Result:
        where = registry or self.registry.url
        self.file.write_text(APP.format(name=self.name, settings=settings, registry=where))
        return CliRunner().invoke(main, ["plan", str(self.file), "--state", str(self.folder)])


@pytest.fixture
def app(tmp_path: Path, registry: SchemaRegistryClient) -> Planned:
    return Planned(tmp_path, registry)


def test_a_stream_without_a_schema_has_the_columns_of_its_subject(app: Planned) -> None:
    said = app.plan()
    assert said.exit_code == 1
    assert f"has no subject '{app.subject}'" in said.output
    app.registry.register_schema(app.subject, "AVRO", V1)
    said = app.plan()
    assert said.exit_code == 0, said.output
    assert f"  avro, by the versions of {app.subject}, whose version 1 has its columns" in said.output
    assert "real-time lane (stateless, Kafka to Kafka)" in said.output


def test_an_incompatible_version_is_refused_with_its_field(app: Planned) -> None:
    levels: tuple[Compatibility, ...] = ("backward", "full_transitive")
    app.registry.set_compatibility(app.subject, "NONE")
    app.registry.register_schema(app.subject, "AVRO", WRONG)
    settings = 'format="avro", schema="id string, card string, amount double, at timestamp"'
    said = app.plan(settings)
    assert said.exit_code == 0
    assert "cannot be read: field amount" in said.output
    assert "will be dead letters" in said.output
    for level in levels:
        said = app.plan(f'{settings}, compatibility="{level}"')
        assert said.exit_code == 1
        assert f"REFUSED: version 1 of {app.subject}" in said.output
        assert "field amount: it is written as string, which is not read as double" in said.output


def test_nested_fields_are_refused_unless_columns_are_named(app: Planned) -> None:
    app.registry.register_schema(app.subject, "AVRO", NESTED)
    said = app.plan()
    assert said.exit_code == 1
    assert "Field 'tags' of the registered schema is array" in said.output
    said = app.plan('format="avro", schema="id string, card string, amount double, at timestamp"')
    assert said.exit_code == 0, said.output


def test_protobuf_takes_micro_batches_and_the_plan_says_why(app: Planned) -> None:
    proto = """
        syntax = "proto3";
        import "google/protobuf/timestamp.proto";
        message Tap { string id = 1; string card = 2; double amount = 3; google.protobuf.Timestamp at = 4; }
    """
    app.registry.register_schema(app.subject, "PROTOBUF", proto)
    said = app.plan('format="protobuf"')
    assert said.exit_code == 0, said.output
    assert "micro-batch lane (its Protobuf is decoded in Python" in said.output


def test_a_registry_that_is_away_is_said_and_no_secret_is(app: Planned, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(AUTH_VARIABLE, "me:s3cret-canary")
    monkeypatch.setenv("WHERE", "http://you:s3cret-canary@127.0.0.1:1")
    said = app.plan(registry="env:WHERE")
    assert said.exit_code == 1
    assert "No schema registry answers at http://127.0.0.1:1" in said.output
    columns = 'format="avro", schema="id string, card string, amount double, at timestamp"'
    monkeypatch.setenv(TOKEN_VARIABLE, "s3cret-canary")
    more = app.plan(columns, registry="env:WHERE")
    assert more.exit_code == 0, more.output
    assert "schemas were not checked" in more.output
    assert "s3cret-canary" not in said.output + more.output


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ('format="xml"', "format='xml'"),
        ('format="avro", compatibility="sideways"', "compatibility='sideways'"),
        ('format="avro", subject=""', "subject='' is no name"),
    ],
)
def test_what_cannot_be_is_refused_by_name(tmp_path: Path, settings: str, said: str) -> None:
    file = tmp_path / "app.py"
    file.write_text(APP.format(name="taps", settings=settings, registry="http://127.0.0.1:1"))
    ran = CliRunner().invoke(main, ["plan", str(file), "--state", str(tmp_path)])
    assert ran.exit_code == 1
    assert said in ran.output
