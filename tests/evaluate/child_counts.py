"""Counts the served vectors of a model until it is killed: python -m … BROKER FOLDER NAME."""

import sys
import time
from pathlib import Path

from headrace.evaluate.compare import Comparison, Place
from headrace.lake.lake import Lake
from tests.evaluate.served import new_model

RECORDS_A_STEP = 9


def main(broker: str, folder: Path, name: str) -> None:
    place = Place(Lake(folder / "lake", broker, ()), folder, every_seconds=0.05, records_a_step=RECORDS_A_STEP)
    comparison = Comparison(new_model(name), place)
    comparison.start()
    said = 0
    while comparison.is_alive():
        if comparison.book.fates.total() != said:
            said = comparison.book.fates.total()
            sys.stdout.write(f"counted {said}\n")
            sys.stdout.flush()
        time.sleep(0.01)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
