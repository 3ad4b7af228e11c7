"""What of a function its checkpoint depends on: a changed function is followed, changed parents or state are not."""

import json
from pathlib import Path

from headrace.stream.checkpoints import is_begun, write_whole
from headrace.stream.derived import Function, Judged


def require_followable(function: Function, judged: Judged, checkpoint: Path) -> None:
    """Refuse what a query that has begun cannot go on with; else write down what it is."""
    file = checkpoint.with_name(f"{checkpoint.name}.terms.json")
    terms = {
        "reads": [parent.clean for parent in function.parents],
        "keeps": judged.why if judged.keeps_state else "nothing",
    }
    past = json.loads(file.read_text()) if file.exists() and is_begun(checkpoint) else terms
    changed = [f"{name} was {past[name]}, is {terms[name]}" for name in terms if past[name] != terms[name]]
    if changed:
        raise function.refused(
            f"it has changed since it was begun ({'; '.join(changed)}), and its checkpoint cannot follow. "
            "Undo the change, or give the stream another name."
        )
    write_whole(file, json.dumps(terms))
