"""The schema of a sink's rows in a registry: looked at before anything runs, registered when it does."""

from headrace.declare.encoded import Encoded
from headrace.declare.sink import Sink
from headrace.declare.targets import Kafka
from headrace.log.schemas.avro import record_name, schema_text
from headrace.log.schemas.compatible import Compatible, Incompatible
from headrace.log.schemas.encode import AvroEncoder, registered_encoder
from headrace.log.schemas.registry import RegistryAway, registry_at


def encoded_by(sink: Sink) -> Encoded | None:
    """The registry of a sink that writes in Avro."""
    return sink.to.encoded if isinstance(sink.to, Kafka) else None


def schema_of_rows(sink: Sink) -> str:
    """The Avro schema of a sink's rows: what is of its key is never null."""
    return schema_text(sink.schema, sink.key, record_name(sink.slug))


def encoder_for(sink: Sink) -> AvroEncoder | None:
    """Who writes a sink's rows in Avro, their schema registered; None where they are JSON."""
    encoded = encoded_by(sink)
    if encoded is None:
        return None
    return registered_encoder(registry_at(encoded.registry), encoded.subject, schema_of_rows(sink))


def taken(sink: Sink) -> Compatible:
    """What the registry says to the schema of a sink's rows; nothing is registered."""
    encoded = encoded_by(sink)
    if encoded is None:
        return Compatible()
    try:
        objections = registry_at(encoded.registry).objections(encoded.subject, "AVRO", schema_of_rows(sink))
    except RegistryAway as away:
        return Compatible(warned=(f"its schema was not checked. {away}",))
    sentences = (f"the registry takes no such version of {encoded.subject}: {one}" for one in objections)
    return Compatible(tuple(sentences))


def require_taken(sink: Sink) -> Compatible:
    """What was found of a sink that can run; else an error with all that refuses it."""
    found = taken(sink)
    if found.refused:
        raise Incompatible(
            f"{sink.written}: Sink {sink.name!r}: {'; '.join(found.refused)}. "
            "Bring other columns=, another subject=, or set that subject's compatibility in the registry."
        )
    return found
