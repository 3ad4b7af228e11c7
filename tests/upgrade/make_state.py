"""Writes the state folder of a running app as an archive: `python -m tests.upgrade.make_state NAME`.

Run it once per release, on the release's own code; later versions must start from it (test_upgrade.py).
"""

import json
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from tests.running import Running
from tests.upgrade.greenhouse import APP, Event, readings, send, wait_until_right

FOLDER = Path(__file__).parent
BATCHES, A_BATCH = 3, 60


def main(name: str) -> None:
    with tempfile.TemporaryDirectory(prefix="headrace-state-") as folder:
        state, sent = Path(folder) / "state", list[Event]()
        with Running(APP, state, "--checkpoint", "10s", "--lake-every", "5s") as running:
            running.wait_until_ready()
            for batch in range(BATCHES):
                events = readings(batch, A_BATCH)
                send(running.broker, events)
                sent += events
                wait_until_right(running, sent)
                if batch == 0:
                    _train(state, sent)
            _keep_forever(running.broker)
        (state / "sent.json").write_text(json.dumps(sent))
        _pack(state, FOLDER / f"state-{name}.tar.xz")


def _train(state: Path, sent: Sequence[Event]) -> None:
    """A champion, fitted on what has been read so far."""
    spine = state.parent / "spine.csv"
    rows = [
        f"{one['house']},{one['degrees']},{_text(one['at'] - 60_000 * number)},{str(one['degrees'] > 20).lower()}"
        for number, one in enumerate(sent)  # a minute apart: a model is tested on events after its labels
    ]
    spine.write_text("house,degrees,at,broken\n" + "\n".join(rows) + "\n")
    command = [sys.executable, "-m", "headrace", "train", str(APP), "broken", "--spine", str(spine), "--promote"]
    subprocess.run([*command, "--state", str(state), "--lake", str(state / "lake")], check=True)


def _text(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat()


def _keep_forever(broker: str) -> None:
    """No retention, or the broker would remove segments of the archive as they grow old."""
    admin = AdminClient({"bootstrap.servers": broker})
    topics = [topic for topic in admin.list_topics(timeout=30).topics if not topic.startswith("__")]
    entry = ConfigEntry("retention.ms", "-1", incremental_operation=AlterConfigOpType.SET)
    resources = [ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry]) for topic in topics]
    for done in admin.incremental_alter_configs(resources).values():
        done.result(30)


def _pack(state: Path, archive: Path) -> None:
    skipped = {"spark", "operators", "logs", "up.out"}

    def keep(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        parts = Path(member.name).parts
        return None if len(parts) > 1 and parts[1] in skipped else member

    with tarfile.open(archive, "w:xz", preset=9) as packed:
        packed.add(state, "state", filter=keep)
    sys.stdout.write(f"{archive.name}: {archive.stat().st_size:,} bytes\n")


if __name__ == "__main__":
    main(sys.argv[1])
