"""Compacts a table in a loop until it is killed: python -m … FOLDER."""

import sys
from datetime import date
from pathlib import Path

from deltalake.exceptions import CommitFailedError
from pyiceberg.exceptions import CommitFailedException

from headrace.lake.maintenance import MaintenanceConfig, maintain_table


def main(folder: Path) -> None:
    while True:
        try:
            maintain_table(folder, MaintenanceConfig(min_files_to_compact=2), date(2026, 1, 10))
            sys.stdout.write("compacted\n")
        except (CommitFailedError, CommitFailedException) as conflict:
            sys.stdout.write(f"{conflict}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
