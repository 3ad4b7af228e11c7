"""What of a function its checkpoint depends on: a changed function is followed, changed parents or state are not."""

import json
from pathlib import Path
from typing import Any

from headrace.errors import DeclarationError
from headrace.stream.checkpoints import is_begun, write_whole
from headrace.stream.derived import Function, Judged

BEFORE = {"reads": "read", "keeps": "kept"}


def require_followable(function: Function, judged: Judged, checkpoint: Path) -> None:
    """Refuse what a query that has begun cannot go on with; else write down what it is."""
    refused = refusal_of(function, judged, checkpoint)
    if refused is not None:
        raise refused
    write_whole(_file(checkpoint), json.dumps(_terms(function, judged)))


def refusal_of(function: Function, judged: Judged, checkpoint: Path) -> DeclarationError | None:
    """Why a query that has begun cannot go on, if it cannot; nothing is written."""
    terms, file = _terms(function, judged), _file(checkpoint)
    past = json.loads(file.read_text()) if file.exists() and is_begun(checkpoint) else terms
    names = [name for name in terms if past[name] != terms[name]]
    changed = [f"it {BEFORE[name]} {_text(past[name])} and {name} {_text(terms[name])} now" for name in names]
    if not changed:
        return None
    return function.refused(f"{', '.join(changed)}. Undo the change, or give the stream another name.")


def _terms(function: Function, judged: Judged) -> dict[str, Any]:
    return {
        "reads": [parent.clean for parent in function.parents],
        "keeps": judged.why if judged.keeps_state else "nothing",
    }


def _file(checkpoint: Path) -> Path:
    return checkpoint.with_name(f"{checkpoint.name}.terms.json")


def _text(value: object) -> str:
    return " and ".join(map(str, value)) if isinstance(value, list) else str(value)
