"""docs/settings.md has the table of settings of the code; HEADRACE_GOLDEN=write rewrites it."""

import os
from pathlib import Path

from headrace.runtime.configuration.reference_page import HEADER, settings_markdown

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "settings.md"


def test_the_page_has_a_row_of_every_setting() -> None:
    before, header, table = PAGE.read_text().partition(HEADER)
    if os.environ.get("HEADRACE_GOLDEN") == "write":
        PAGE.write_text(before + settings_markdown())
    else:
        assert header + table == settings_markdown()


def test_readers_are_led_to_the_page() -> None:
    assert "(docs/settings.md)" in (ROOT / "README.md").read_text()
    assert "(settings.md)" in (ROOT / "docs" / "supervision.md").read_text()
