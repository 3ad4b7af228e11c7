"""A part logs the failure of Python code that Spark calls as the query's, without py4j's traceback."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from headrace.runtime.part_runner import configure_logging


@pytest.fixture
def configured() -> Iterator[None]:
    py4j = logging.getLogger("py4j")
    level = py4j.level
    configure_logging()
    yield
    py4j.setLevel(level)


@pytest.mark.usefixtures("configured")
def test_a_batch_that_fails_is_told_by_its_query_alone(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_batch: DataFrame, _number: int) -> None:
        raise ValueError("no room for this batch")

    rows = spark.readStream.format("rate").option("rowsPerSecond", 5).load()
    query = rows.writeStream.option("checkpointLocation", str(tmp_path)).foreachBatch(fail).start()
    with pytest.raises(StreamingQueryException, match="no room for this batch"):
        query.awaitTermination(60)
    assert not [one for one in caplog.records if one.name.startswith("py4j")]
