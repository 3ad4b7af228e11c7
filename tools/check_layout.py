"""Rejects ambiguous names: a class name with two meanings, a module name that is a bare participle, a full folder.

python tools/check_layout.py
"""

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

SOURCES = Path(__file__).parents[1] / "src" / "headrace"
MOST_MODULES = 15
_PARTICIPLES = (
    "begun brought built done fed found given gone grown heard held kept known laid left lost made met paid read said "
    "seen sent shown spent split sunk taken taught told worn written"
)
PARTICIPLES = frozenset(_PARTICIPLES.split())
# Nouns that end like a participle, and a command of the user's.
NOUNS = frozenset({"speed", "feed", "need", "seed", "parked"})


def is_participle(name: str) -> bool:
    """Whether a module's name is a bare participle.

    >>> [name for name in ("told", "judged", "consumer_lag", "training", "embedded_servers") if is_participle(name)]
    ['told', 'judged']
    """
    return "_" not in name and name not in NOUNS and (name in PARTICIPLES or name.endswith("ed"))


def modules_of(sources: Path) -> list[Path]:
    """Every module except `__init__`."""
    return sorted(file for file in sources.rglob("*.py") if not file.name.startswith("__"))


def bare_participles(sources: Path) -> Iterator[str]:
    """Modules and folders whose name is a bare participle."""
    named = {*modules_of(sources), *(file.parent for file in sources.rglob("__init__.py"))}
    for path in sorted(named):
        if is_participle(path.stem):
            yield f"{path.relative_to(sources)}: a bare participle; name the thing that is in it"


def full_folders(sources: Path) -> Iterator[str]:
    """Folders with too many modules of their own."""
    modules = defaultdict(list)
    for file in modules_of(sources):
        modules[file.parent].append(file)
    for folder, files in sorted(modules.items()):
        if len(files) > MOST_MODULES:
            yield f"{folder.relative_to(sources)}: {len(files)} modules, at most {MOST_MODULES}; make sub-folders"


def shared_class_names(sources: Path) -> Iterator[str]:
    """Class names with two meanings."""
    places = defaultdict(list)
    for file in sorted(sources.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(f"{file.relative_to(sources)}:{node.lineno}")
    for name, found in sorted(places.items()):
        if len(found) > 1:
            yield f"class {name}: {', '.join(found)}; one name means one thing"


def problems(sources: Path) -> list[str]:
    """Every problem, one line each."""
    return [*bare_participles(sources), *full_folders(sources), *shared_class_names(sources)]


if __name__ == "__main__":
    sys.exit("\n".join(problems(SOURCES)) or 0)
