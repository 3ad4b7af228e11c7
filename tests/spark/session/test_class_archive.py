"""The class-data archive of the Spark driver: one per Java, Spark and set of jars, and used where it was created."""

import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.embedded_servers.jars import jar_paths
from headrace.spark.session.class_archive import archive_options, class_archive_path
from headrace.spark.session.session import CLASS_PATH_VARIABLE, java_process_id


def test_other_jars_or_another_java_have_another_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    of_kafka = class_archive_path([tmp_path / "jars" / "kafka.jar"])
    assert of_kafka == class_archive_path([tmp_path / "jars" / "kafka.jar"])
    assert of_kafka != class_archive_path([tmp_path / "jars" / "avro.jar"])
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "other"))
    assert of_kafka != class_archive_path([tmp_path / "jars" / "kafka.jar"])


def test_java_starts_without_an_archive_that_is_not_there(tmp_path: Path) -> None:
    jars = [tmp_path / "jars" / "kafka.jar"]
    assert archive_options(jars) == []
    archive = class_archive_path(jars)
    assert archive is not None
    archive.parent.mkdir()
    archive.touch()
    assert archive_options(jars)[0] == f"-XX:SharedArchiveFile={archive}"
    assert archive_options([]) == []


def test_a_driver_takes_its_classes_from_the_archive(spark: SparkSession) -> None:
    archive = class_archive_path(jar_paths("spark"))
    if archive is None or not archive.exists():
        pytest.skip("there is no archive of Spark's classes: run `make setup`")
    assert str(archive) in Path(f"/proc/{java_process_id(spark)}/maps").read_text()


@pytest.mark.usefixtures("spark")
def test_processes_that_are_started_later_do_not_inherit_the_driver_s_class_path() -> None:
    assert CLASS_PATH_VARIABLE not in os.environ
