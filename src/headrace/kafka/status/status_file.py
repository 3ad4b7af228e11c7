"""STATE/status.json: the last states of an app's parts, written by its supervisor, for use while the broker is down.

{"app": "shop", "at_us": …, "supervisor": {"pid": 4711, "started": "…"}, "parts": [PartProgress, …],
 "broker": "127.0.0.1:9092"}
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from headrace.kafka.status.reports.parts import PartProgress

STATUS_FILE = "status.json"


@dataclass(frozen=True)
class StatusFile:
    """The content of the file: the app, the time, the supervisor's process, the state of each part, and the broker."""

    app: str
    at_us: int
    supervisor: Mapping[str, Any]
    parts: tuple[PartProgress, ...]
    broker: str = ""  # absent in files of earlier versions


def write_status(state_folder: Path, status: StatusFile) -> None:
    """Write the file atomically: concurrent readers see the previous content."""
    file = state_folder / STATUS_FILE
    draft = file.with_name(f".{STATUS_FILE}.draft")
    draft.write_text(json.dumps(asdict(status)))
    draft.replace(file)


def read_status(state_folder: Path) -> StatusFile | None:
    """The content of the file; None if it is missing or cannot be read."""
    try:
        content = json.loads((state_folder / STATUS_FILE).read_bytes())
        parts, broker = _to_parts(content["parts"]), content.get("broker", "")
        return StatusFile(content["app"], content["at_us"], content["supervisor"], parts, broker)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _to_parts(items: Sequence[Mapping[str, Any]]) -> tuple[PartProgress, ...]:
    return tuple(PartProgress(**item) for item in items)
