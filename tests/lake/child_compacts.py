"""Compacts a table over and over, until it is killed: python -m … FOLDER."""

import sys
from datetime import date
from pathlib import Path

from deltalake.exceptions import CommitFailedError
from pyiceberg.exceptions import CommitFailedException

from headrace.lake.care import Care, care_for


def main(folder: Path) -> None:
    while True:
        try:
            care_for(folder, Care(many_files=2), date(2026, 1, 10))
            sys.stdout.write("compacted\n")
        except (CommitFailedError, CommitFailedException) as conflict:
            sys.stdout.write(f"{conflict}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
