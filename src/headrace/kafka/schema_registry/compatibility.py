"""Whether a stream's columns are compatible with the versions of its subject.

    version 1 ── version 2 ── version 3      backward: the columns can be read from the newest; transitive: from each
        ▲            ▲            ▲          forward: a reader of each version can read records with the columns
        └────────────┴──── columns           full: both

The newest version must be readable at every level but `none`, since producers write it.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from headrace.declare.streams.encoding import RecordEncoding
from headrace.declare.streams.stream import Stream
from headrace.errors import HeadraceError
from headrace.kafka.schema_registry.column_mapping import column_problems, map_columns
from headrace.kafka.schema_registry.formats import reader_incompatibilities, schema_fields
from headrace.kafka.schema_registry.registry_client import (
    RegistryUnavailable,
    SchemaRegistryClient,
    SubjectVersion,
    create_registry_client,
)


@dataclass(frozen=True)
class CompatibilityResult:
    """The result for a stream: errors that reject it, and warnings."""

    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


class IncompatibleSchemaError(HeadraceError):
    """A stream whose columns are incompatible with its registered schemas."""


def check_compatibility(stream: Stream) -> CompatibilityResult:
    """Check a stream against its registry's versions; no findings for a stream without a registry."""
    if stream.encoding is None:
        return CompatibilityResult()
    registry = create_registry_client(stream.encoding.registry)
    try:
        versions = registry.get_versions(stream.encoding.subject)
        level = (stream.encoding.compatibility or registry.get_compatibility(stream.encoding.subject)).lower()
    except RegistryUnavailable as error:
        return CompatibilityResult(warnings=(f"schemas were not checked. {error}",))
    if not versions:
        return CompatibilityResult(warnings=(_no_versions_warning(stream.encoding, registry),))
    return _check_versions(stream, versions, level)


def require_compatible(stream: Stream) -> CompatibilityResult:
    """The result of a stream that can run; raises with all its errors otherwise."""
    result = check_compatibility(stream)
    if result.errors:
        raise IncompatibleSchemaError(" ".join((f"Stream {stream.name!r}:", *result.errors)))
    return result


def _check_versions(stream: Stream, versions: tuple[SubjectVersion, ...], level: str) -> CompatibilityResult:
    errors, warnings = list[str](), list[str]()
    for version in versions:
        is_enforced = level != "none" and (version == versions[-1] or level.endswith("_transitive"))
        for problem in _backward_problems(stream, version):
            if is_enforced:
                errors.append(f"{problem}. {_remedy(level)}")
            else:
                warnings.append(f"{problem}: its records will be dead letters")
        if is_enforced and ((stream.encoding and stream.encoding.compatibility) or "").startswith(("forward", "full")):
            errors += [f"{problem}. {_remedy(level)}" for problem in _forward_problems(stream, version)]
    return CompatibilityResult(tuple(errors), tuple(warnings))


def _backward_problems(stream: Stream, version: SubjectVersion) -> Iterator[str]:
    """Why the stream cannot read records of a version."""
    assert stream.encoding is not None  # noqa: S101  # only such streams are checked
    try:
        fields = schema_fields(stream, version.schema)
    except HeadraceError as error:
        yield f"{_version_label(stream.encoding, version)}: {error}"
        return
    for problem in column_problems(map_columns(stream, fields)):
        yield f"{_version_label(stream.encoding, version)} cannot be read: {problem}"


def _forward_problems(stream: Stream, version: SubjectVersion) -> Iterator[str]:
    """Why a reader of a version could not read records with the stream's columns."""
    assert stream.encoding is not None  # noqa: S101  # as above
    for problem in reader_incompatibilities(stream, version.schema):
        yield f"{_version_label(stream.encoding, version)} could not read these columns: {problem}"


def _version_label(encoded: RecordEncoding, version: SubjectVersion) -> str:
    return f"version {version.number} of {encoded.subject} (id {version.schema.id})"


def _remedy(level: str) -> str:
    return (
        "Change schema= as it says, register a version that has it, "
        f'or write compatibility="none" instead of {level!r}: what cannot be read is then a dead letter.'
    )


def _no_versions_warning(encoded: RecordEncoding, registry: SchemaRegistryClient) -> str:
    return f"the registry at {registry.url} has no version of {encoded.subject} yet: nothing was checked"
