"""Counts the served vectors of a model until it is killed: python -m … BROKER FOLDER NAME."""

import sys
import time
from pathlib import Path

from headrace.lake.lake import LakeConfig
from headrace.monitoring.drift.drift_worker import DriftEvaluationConfig, DriftWorker
from tests.monitoring.served_vectors import new_model

RECORDS_A_STEP = 9


def main(broker: str, folder: Path, name: str) -> None:
    place = DriftEvaluationConfig(
        LakeConfig(folder / "lake", broker, ()), folder, interval_seconds=0.05, records_per_step=RECORDS_A_STEP
    )
    comparison = DriftWorker(new_model(name), place)
    comparison.start()
    said = 0
    while comparison.is_alive():
        if comparison.drift_writer.record_counts.total() != said:
            said = comparison.drift_writer.record_counts.total()
            sys.stdout.write(f"counted {said}\n")
            sys.stdout.flush()
        time.sleep(0.01)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
