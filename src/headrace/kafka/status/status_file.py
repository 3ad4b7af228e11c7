"""STATE/status.json: the states of an app's parts as its supervisor last wrote them, for when the broker is down.

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
    """What the file says: of which app, when, by which process, the state of each part, and where its broker is."""

    app: str
    at_us: int
    supervisor: Mapping[str, Any]
    parts: tuple[PartProgress, ...]
    broker: str = ""  # not in a file of before


def write_status(state_folder: Path, status: StatusFile) -> None:
    """Write the file in one step: whoever reads meanwhile reads what was there before."""
    file = state_folder / STATUS_FILE
    draft = file.with_name(f".{STATUS_FILE}.draft")
    draft.write_text(json.dumps(asdict(status)))
    draft.replace(file)


def read_status(state_folder: Path) -> StatusFile | None:
    """What the file says; None where there is none, or none that can be read."""
    try:
        content = json.loads((state_folder / STATUS_FILE).read_bytes())
        parts, broker = _to_parts(content["parts"]), content.get("broker", "")
        return StatusFile(content["app"], content["at_us"], content["supervisor"], parts, broker)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _to_parts(items: Sequence[Mapping[str, Any]]) -> tuple[PartProgress, ...]:
    return tuple(PartProgress(**item) for item in items)
