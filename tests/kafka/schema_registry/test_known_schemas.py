"""A gate's schemas are saved, only ever added to, and written only if there is a new one."""

from pathlib import Path

from headrace.kafka.schema_registry.known_schemas import KnownSchemas, read_known_schemas, to_json_text
from headrace.kafka.schema_registry.registry_client import SchemaDefinition

ONE, TWO = SchemaDefinition(1, "AVRO", "{}"), SchemaDefinition(2, "AVRO", "[]", has_references=True)


def test_what_is_kept_is_read_again(tmp_path: Path) -> None:
    known = KnownSchemas({1: ONE, 2: TWO, 9: None}, frozenset({1, 2}))
    (tmp_path / "kept").write_text(to_json_text(known))
    assert read_known_schemas(tmp_path / "kept") == known
    assert read_known_schemas(tmp_path / "none") == KnownSchemas()


def test_a_plan_changes_only_with_news() -> None:
    known = KnownSchemas({1: ONE, 9: None})
    assert known.merge({1: ONE}, [1]).schemas is known.schemas
    assert known.merge({1: None}).registered == (ONE,)
    assert known.merge({2: TWO}).schemas is not known.schemas
    # An id that was unknown may come to be known, never the other way about.
    assert known.merge({9: SchemaDefinition(9, "AVRO", "{}")}).missing_ids == ()


def test_after_many_unknown_ids_nobody_asks_for_more() -> None:
    assert not KnownSchemas(dict.fromkeys(range(KnownSchemas.MAX_MISSING))).is_sufficient
    assert KnownSchemas(dict.fromkeys(range(KnownSchemas.MAX_MISSING + 1))).is_sufficient
