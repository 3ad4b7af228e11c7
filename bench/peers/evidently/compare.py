"""Run by Evidently's own Python: which columns of each window drifted, by its defaults.

python compare.py FOLDER CASES     0.reference.parquet, 0.windows.parquet with a column `window`: which it is of; 1.…
"""

import json
import os
import sys

os.environ["DO_NOT_TRACK"] = "1"  # it would tell its makers that it was run

import pandas as pd
from evidently import Report
from evidently.metrics import ValueDrift


def compare(reference: pd.DataFrame, windows: pd.DataFrame) -> dict[str, list[str]]:
    """By window the columns that drifted."""
    columns = list(reference.columns)
    report = Report([ValueDrift(column=column) for column in columns], include_tests=True)
    return {
        str(window): _drifted(report, columns, reference, rows[columns]) for window, rows in windows.groupby("window")
    }


def _drifted(report: Report, columns: list[str], reference: pd.DataFrame, rows: pd.DataFrame) -> list[str]:
    tests = report.run(rows.reset_index(drop=True), reference).dict()["tests"]
    failed = {test["name"] for test in tests if str(test["status"]).endswith("FAIL")}
    return [column for column in columns if f"Value Drift for column {column}" in failed]


if __name__ == "__main__":
    folder, cases = sys.argv[1], range(int(sys.argv[2]))
    files = [[f"{folder}/{case}.{part}.parquet" for part in ("reference", "windows")] for case in cases]
    print(json.dumps([compare(*map(pd.read_parquet, pair)) for pair in files]))
