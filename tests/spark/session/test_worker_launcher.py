"""Python workers import the installed pyspark, not Spark's zip of it, and the modules that the driver imports."""

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from headrace.spark.session.worker_launcher import write_worker_launcher


def said_by(program: str, **env: str) -> str:
    command = [program, "-c", "import pyspark, os, sys; print(pyspark.__file__, sys.prefix, *sys.path, sep=os.linesep)"]
    done = subprocess.run(command, env=os.environ | env, check=True, capture_output=True, text=True)
    return done.stdout


def test_workers_import_the_pyspark_that_is_installed_wherever_spark_points_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}/its own:{tmp_path}/other")
    folder = tmp_path / "a folder with 'quotes'"
    (zipped,) = (Path(pyspark.__file__).parent / "python" / "lib").glob("pyspark.zip")
    imported, prefix, *path = said_by(write_worker_launcher(folder), PYTHONPATH=str(zipped)).splitlines()
    assert imported == pyspark.__file__
    assert prefix == sys.prefix
    own = [path.index(one) for one in (f"{tmp_path}/its own", f"{tmp_path}/other", str(zipped))]
    assert own == sorted(own), "the driver's own path comes first, as in the driver"


def test_where_nothing_may_be_run_workers_are_plain_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)  # as on a disk that is mounted noexec
    assert write_worker_launcher(tmp_path) == sys.executable


def test_workers_of_a_session_use_it(spark: SparkSession) -> None:
    @F.udf("string")
    def imported(_):  # type: ignore[no-untyped-def]  # whose hints Spark would read
        import pyspark

        return pyspark.__file__

    assert spark.range(1).select(imported("id")).collect()[0][0] == pyspark.__file__
