"""What other programs and old data see stays as it is: a change of it is made on purpose, or not at all.

`HEADRACE_GOLDEN=write python -m pytest tests/golden` writes the documents anew; look at the difference before it is
committed, and name it in the changelog.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.golden.snapshots import SNAPSHOTS

IS_WRITTEN = os.environ.get("HEADRACE_GOLDEN") == "write"


def require_same(name: str, seen: Any) -> None:
    file = Path(__file__).with_name(f"{name}.json")
    text = json.dumps(seen, indent=1, ensure_ascii=False) + "\n"
    if IS_WRITTEN:
        file.write_text(text)
    assert json.loads(text) == json.loads(file.read_text()), f"{name}.json: see the docstring of {__file__}"


@pytest.mark.parametrize("name", SNAPSHOTS)
def test_what_others_see_is_as_it_was(name: str) -> None:
    require_same(name, SNAPSHOTS[name]())
