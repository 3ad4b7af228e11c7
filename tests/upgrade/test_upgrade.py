"""This version starts from a state folder of an earlier one, and continues with every value right."""

import json
import tarfile
from pathlib import Path

import pytest

from headrace.models.versions.version_store import VersionStore
from tests.running import Running
from tests.upgrade.greenhouse import APP, Event, readings, send, wait_until_right

ARCHIVES = sorted(Path(__file__).parent.glob("state-*.tar.xz"))
NEXT_BATCH, A_BATCH = 1_000, 60


@pytest.mark.faults
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda archive: archive.name.removesuffix(".tar.xz"))
def test_a_kept_state_folder_goes_on_with_no_wrong_value(archive: Path, tmp_path: Path) -> None:
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path, filter="data")
    state = tmp_path / "state"
    sent: list[Event] = json.loads((state / "sent.json").read_text())
    with Running(APP, state, "--checkpoint", "10s", "--lake-every", "5s") as running:
        running.wait_until_ready()
        wait_until_right(running, sent)
        events = readings(NEXT_BATCH, A_BATCH)
        send(running.broker, events)
        wait_until_right(running, [*sent, *events])
        champion = VersionStore(state, "broken").load_roles().champion
        answer = running.predict("broken", {**_record(events[0]), "reading_id": "asked"})
        assert (champion, answer["version"]) == ("1", "1")
        assert "first run" not in running.output.read_text()


def _record(event: Event) -> Event:
    return {name: value for name, value in event.items() if name != "late"}
