"""The schema of a sink's rows in a schema registry: checked before the app starts, registered when it runs."""

from headrace.declare.sinks.sink import Sink
from headrace.kafka.schema_registry.avro import to_avro_name, to_avro_schema
from headrace.kafka.schema_registry.compatibility import CompatibilityResult, IncompatibleSchemaError
from headrace.kafka.schema_registry.record_encoder import AvroEncoder, register_encoder
from headrace.kafka.schema_registry.registry_client import RegistryUnavailable, create_registry_client


def avro_row_schema(sink: Sink) -> str:
    """The Avro schema of a sink's rows; key columns are not nullable."""
    return to_avro_schema(sink.schema, sink.key, to_avro_name(sink.slug))


def create_row_encoder(sink: Sink) -> AvroEncoder | None:
    """The Avro encoder of a sink's rows, after registering their schema; None for JSON."""
    encoding = sink.to.encoding
    if encoding is None:
        return None
    return register_encoder(create_registry_client(encoding.registry), encoding.subject, avro_row_schema(sink))


def check_sink_schema(sink: Sink) -> CompatibilityResult:
    """Check the schema of a sink's rows against the registry; registers nothing."""
    encoding = sink.to.encoding
    if encoding is None:
        return CompatibilityResult()
    try:
        incompatibilities = create_registry_client(encoding.registry).check_compatibility(
            encoding.subject, "AVRO", avro_row_schema(sink)
        )
    except RegistryUnavailable as error:
        return CompatibilityResult(warnings=(f"its schema was not checked. {error}",))
    errors = (
        f"the registry rejects this version of {encoding.subject}: {incompatibility}"
        for incompatibility in incompatibilities
    )
    return CompatibilityResult(tuple(errors))


def require_compatible_sink_schema(sink: Sink) -> CompatibilityResult:
    """The check's warnings for a sink that can run; else raises an error with all incompatibilities."""
    result = check_sink_schema(sink)
    if result.errors:
        raise IncompatibleSchemaError(
            f"{sink.location}: Sink {sink.name!r}: {'; '.join(result.errors)}. "
            "Write other columns=, another subject=, or set that subject's compatibility in the registry."
        )
    return result
