"""The base of status reports: a kind, a subject, a key, and the conversion to JSON.

    key     lake silver/payments                     one latest record a key in the compacted topic
    value   {"kind": "ingestion", "subject": "silver/payments", "landed": "silver/payments", "at_us": …, …}

A new kind of report is one dataclass in this folder and its entry in report_types.py.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, Self

TAGS = ("kind", "subject")


@dataclass(frozen=True)
class ProgressReport:
    """A report, which replaces the previous one of its subject."""

    kind: ClassVar[str]
    subject_fields: ClassVar[tuple[str, ...]]  # the fields that identify a subject of a kind
    key_prefix: ClassVar[str] = ""  # the key's prefix, if topics of older versions have another word than the kind

    @property
    def subject(self) -> str:
        """The subject of the report, unique within its kind."""
        return " ".join(getattr(self, name) for name in self.subject_fields)

    @property
    def key(self) -> str:
        """The key of the record."""
        return f"{self.key_prefix or self.kind} {self.subject}"

    def to_json(self) -> dict[str, Any]:
        """The value of the record."""
        return {"kind": self.kind, "subject": self.subject} | asdict(self)

    @classmethod
    def from_json(cls, message: Mapping[str, Any]) -> Self:
        """A report from its known fields; ignores fields of newer versions."""
        return cls(**{field.name: message[field.name] for field in fields(cls) if field.name in message})
