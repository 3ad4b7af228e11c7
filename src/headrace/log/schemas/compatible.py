"""Whether a stream's columns and the versions of its subject understand each other.

    version 1 ── version 2 ── version 3      backward: the columns can be read from the newest; transitive: from each
        ▲            ▲            ▲          forward: whoever reads with a version can read what has these columns
        └────────────┴──── columns           full: both

That the newest version can be read is asked of every level but none, for it is what is being written.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from headrace.declare.encoded import Encoded
from headrace.declare.stream import Stream
from headrace.errors import HeadraceError
from headrace.log.schemas.formats import fields_of, unread_by
from headrace.log.schemas.readings import breaks, readings
from headrace.log.schemas.registry import Registry, RegistryAway, Version, registry_at


@dataclass(frozen=True)
class Compatible:
    """What was found of a stream: sentences that refuse it, and others that a person should read."""

    refused: tuple[str, ...] = ()
    warned: tuple[str, ...] = ()


class Incompatible(HeadraceError):
    """A stream whose columns and registered schemas do not understand each other."""


def compatible(stream: Stream) -> Compatible:
    """What the registry's versions mean for a stream; nothing for one that has no registry."""
    if stream.encoded is None:
        return Compatible()
    registry = registry_at(stream.encoded.registry)
    try:
        versions = registry.versions(stream.encoded.subject)
        level = (stream.encoded.compatibility or registry.level(stream.encoded.subject)).lower()
    except RegistryAway as away:
        return Compatible(warned=(f"schemas were not checked. {away}",))
    if not versions:
        return Compatible(warned=(_nothing_yet(stream.encoded, registry),))
    return _judged(stream, versions, level)


def require_compatible(stream: Stream) -> Compatible:
    """What was found of a stream that can run; else an error with all that refuses it."""
    found = compatible(stream)
    if found.refused:
        raise Incompatible(" ".join((f"Stream {stream.name!r}:", *found.refused)))
    return found


def _judged(stream: Stream, versions: tuple[Version, ...], level: str) -> Compatible:
    refused, warned = list[str](), list[str]()
    for version in versions:
        is_bound = level != "none" and (version == versions[-1] or level.endswith("_transitive"))
        for problem in _unreadable(stream, version):
            if is_bound:
                refused.append(f"{problem}. {_remedy(level)}")
            else:
                warned.append(f"{problem}: its records will be dead letters")
        if is_bound and ((stream.encoded and stream.encoded.compatibility) or "").startswith(("forward", "full")):
            refused += [f"{problem}. {_remedy(level)}" for problem in _unwritable(stream, version)]
    return Compatible(tuple(refused), tuple(warned))


def _unreadable(stream: Stream, version: Version) -> Iterator[str]:
    """Why the stream cannot read what is written with a version."""
    assert stream.encoded is not None  # noqa: S101  # only such streams are judged
    try:
        fields = fields_of(stream, version.schema)
    except HeadraceError as why:
        yield f"{_named(stream.encoded, version)}: {why}"
        return
    for one in breaks(readings(stream, fields)):
        yield f"{_named(stream.encoded, version)} cannot be read: {one}"


def _unwritable(stream: Stream, version: Version) -> Iterator[str]:
    """Why whoever reads with a version could not read what has the stream's columns."""
    assert stream.encoded is not None  # noqa: S101  # as above
    for one in unread_by(stream, version.schema):
        yield f"{_named(stream.encoded, version)} could not read these columns: {one}"


def _named(encoded: Encoded, version: Version) -> str:
    return f"version {version.number} of {encoded.subject} (id {version.schema.id})"


def _remedy(level: str) -> str:
    return (
        "Change schema= as it says, register a version that has it, "
        f'or write compatibility="none" instead of {level!r}: what cannot be read is then a dead letter.'
    )


def _nothing_yet(encoded: Encoded, registry: Registry) -> str:
    return f"the registry at {registry.url} has no version of {encoded.subject} yet: nothing was checked"
