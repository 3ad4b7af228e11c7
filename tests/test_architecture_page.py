"""docs/architecture.md names existing files, and few enough to read in one sitting."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "architecture.md").read_text()
DIAGRAM = (ROOT / "docs" / "architecture.svg").read_text()
PATHS = re.findall(r"`([\w/]+/\w+\.py)`", PAGE)
MAX_FILES = 25


def test_each_file_the_page_names_exists() -> None:
    assert [path for path in PATHS if not (ROOT / "src" / "headrace" / path).is_file()] == []


def test_the_page_names_no_more_files_than_one_can_read() -> None:
    assert 10 < len(set(PATHS)) <= MAX_FILES


def test_hand_overs_and_the_diagram_name_files_of_the_list() -> None:
    listed_names = {Path(path).name for path in PATHS}
    short_names = set(re.findall(r"`(\w+\.py)`", PAGE)) | set(re.findall(r'class="file"[^>]*>([\w.]+)<', DIAGRAM))
    assert short_names - listed_names == set()


def test_each_folder_the_page_names_exists() -> None:
    folders = re.findall(r"`([\w/]+/)`", PAGE.replace("`src/headrace/`", ""))
    assert [folder for folder in folders if not (ROOT / "src" / "headrace" / folder).is_dir()] == []
