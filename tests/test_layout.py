"""The names and folders that `tools/check_layout.py` rejects."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

TOOL = Path(__file__).parents[1] / "tools" / "check_layout.py"


@pytest.fixture(scope="module")
def layout() -> Any:
    spec = spec_from_file_location("check_layout", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_one_class_name_for_two_things_is_refused(layout: Any, tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / f"{name}.py").write_text("class Place: ...\n")
    (problem,) = layout.problems(tmp_path)
    assert problem == "class Place: first.py:1, second.py:1; one name means one thing"


def test_a_module_or_a_folder_that_is_a_bare_participle_is_refused(layout: Any, tmp_path: Path) -> None:
    (tmp_path / "judged").mkdir()
    (tmp_path / "judged" / "__init__.py").touch()
    (tmp_path / "told.py").touch()
    assert [problem.partition(":")[0] for problem in layout.problems(tmp_path)] == ["judged", "told.py"]


def test_a_folder_of_too_many_modules_is_refused(layout: Any, tmp_path: Path) -> None:
    for number in range(15):
        (tmp_path / f"module_{number}.py").touch()
    assert layout.problems(tmp_path) == []
    (tmp_path / "module_15.py").touch()
    (problem,) = layout.problems(tmp_path)
    assert "16 modules, at most 15" in problem


def test_the_code_is_laid_out_well(layout: Any) -> None:
    assert layout.problems(layout.SOURCES) == []
