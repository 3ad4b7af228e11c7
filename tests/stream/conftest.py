"""One Spark session for the tests of this room."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from headrace.local.jars import jar_paths
from headrace.stream.session import SparkPlace, start_session


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    scratch = tmp_path_factory.mktemp("spark")
    session = start_session(SparkPlace(None, 2, jar_paths("spark"), scratch))
    session.conf.set("spark.sql.shuffle.partitions", 2)
    yield session
    session.stop()
