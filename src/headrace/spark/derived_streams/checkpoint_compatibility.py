"""Whether a derived stream fits its checkpoint: the function may change, but not its parents or its use of state."""

import json
from pathlib import Path
from typing import Any

from headrace.errors import DeclarationError
from headrace.spark.checkpoints.checkpoint_files import has_committed_batch, write_atomically
from headrace.spark.derived_streams.derived_query import LaneDecision, StreamFunction

PAST_TENSE = {"reads": "read", "keeps": "kept"}


def require_compatible_checkpoint(function: StreamFunction, decision: LaneDecision, checkpoint: Path) -> None:
    """Reject a change that an existing checkpoint cannot follow; else save the new identity."""
    error = find_incompatibility(function, decision, checkpoint)
    if error is not None:
        raise error
    write_atomically(_identity_file(checkpoint), json.dumps(_function_identity(function, decision)))


def find_incompatibility(function: StreamFunction, decision: LaneDecision, checkpoint: Path) -> DeclarationError | None:
    """Why an existing checkpoint cannot be continued, if it cannot; nothing is written."""
    identity, file = _function_identity(function, decision), _identity_file(checkpoint)
    saved_identity = json.loads(file.read_text()) if file.exists() and has_committed_batch(checkpoint) else identity
    changed_names = [name for name in identity if saved_identity[name] != identity[name]]
    changes = [
        f"it {PAST_TENSE[name]} {_format_value(saved_identity[name])} and {name} {_format_value(identity[name])} now"
        for name in changed_names
    ]
    if not changes:
        return None
    return function.to_declaration_error(f"{', '.join(changes)}. Undo the change, or give the stream another name.")


def _function_identity(function: StreamFunction, decision: LaneDecision) -> dict[str, Any]:
    return {
        "reads": [parent.clean for parent in function.parents],
        "keeps": decision.reason if decision.keeps_state else "nothing",
    }


def _identity_file(checkpoint: Path) -> Path:
    return checkpoint.with_name(f"{checkpoint.name}.terms.json")


def _format_value(value: object) -> str:
    return " and ".join(map(str, value)) if isinstance(value, list) else str(value)
