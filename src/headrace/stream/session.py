"""The Spark session of a stream process, with the settings that make real-time mode fast and its state safe."""

import json
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pyspark.sql import SparkSession

from headrace.log.dialects import HIDDEN, jvm_words
from headrace.stream.class_archive import archive_options, driver_class_path
from headrace.stream.worker_launcher import worker_python

LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")
CLASS_PATH = "SPARK_DIST_CLASSPATH"  # read by spark-submit, behind Spark's own jars

CORES_FOR_TWO_COMPILERS = 4
FOR_FEW_CORES = (
    "-XX:TieredStopAtLevel=1",
    "-XX:CompileThresholdScaling=0.1",
    "-XX:-DontCompileHugeMethods",  # Spark's generated methods are often longer than Java compiles by default
    "-XX:+UseParallelGC",
    # One compiler alone is given 48 MB, which queries and the lake together fill: then nothing more is compiled.
    "-XX:ReservedCodeCacheSize=240m",
)
# A length in Avro is believed before its bytes are there: one that no record can have must not be given memory.
LARGEST_RECORD = 16 << 20
AVRO_LIMITS = " ".join(
    f"-Dorg.apache.avro.limits.{what}.maxLength={LARGEST_RECORD}" for what in ("string", "bytes", "collectionItems")
)
LOOPBACK = {"127.0.0.1", "localhost", "::1"}
FILE_MANAGER = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

SETTINGS: Mapping[str, str] = {
    "spark.app.name": "headrace",
    # Who we are to a broker is among the options of sources and sinks, by names that Spark does not take for secrets.
    "spark.redaction.regex": HIDDEN,
    "spark.sql.redaction.options.regex": HIDDEN,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    # Overflow wraps, dividing by zero is null, as in the kernel; an error would stop the stream for one record.
    "spark.sql.ansi.enabled": "false",
    # The default of 50 ms is the latency of a shuffle in real-time mode.
    "spark.shuffle.streaming.networkBufferMaxWaitTimeMs": "2",
    # The session is sized for the slots of all queries (task_slots.py). Spark's own check counts the tasks of a batch,
    # as the read of a broadcast table, as if they held their slots for ever; docs/adr/0068.
    "spark.scheduler.pipelinedGroup.slotCheck.enabled": "false",
    # Deduplication by id alone, bounded by the watermark, is not on Spark's list for real-time mode; docs/adr/0007.
    "spark.sql.streaming.realTimeMode.allowlistCheck": "false",
    "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
    # Needed to go on in the other lane on the same checkpoint.
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.sql.streaming.minBatchesToRetain": "10",
    "spark.sql.streaming.numRecentProgressUpdates": "5",
    # How long a Python worker waits for Java's answer; the default of 15 s is for a machine that is not busy.
    "spark.python.authenticate.socketTimeout": "120s",
}


@dataclass(frozen=True)
class SparkPlace:
    """Where Spark runs: its master, the task slots it needs there, and the jars it is given."""

    master: str | None
    slots: int
    jars: Sequence[Path]
    scratch: Path
    streams: bool = True  # and so wants its code compiled early rather than well
    java_options: Sequence[str] | None = None  # in place of those for the archive of classes

    @property
    def on_this_machine(self) -> bool:
        """Whether nobody from elsewhere has to reach the driver."""
        return self.master is None or (urlsplit(self.master).hostname or "") in LOOPBACK


def _java_options(place: SparkPlace) -> str:
    """For streams on few cores one compiler, and early: the second takes a core for minutes. docs/adr/0007."""
    few = (os.cpu_count() or 1) < CORES_FOR_TWO_COMPILERS
    told = [f"-Dlog4j2.configurationFile={LOG_SETTINGS.as_uri()}", *_everywhere()]
    if place.master is None:
        told += archive_options(place.jars) if place.java_options is None else place.java_options
    return " ".join([*told, *FOR_FEW_CORES] if few and place.streams else told)


def _everywhere() -> list[str]:
    """What drivers and executors are told alike: how much Avro may ask for, and how the broker is to be met."""
    return [AVRO_LIMITS, *(f"-D{name}={value}" for name, value in jvm_words().items())]


def _on_this_machine() -> dict[str, str]:
    return {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}


@contextmanager
def _class_path(place: SparkPlace) -> Iterator[None]:
    """The jars on the class path of a driver that is started meanwhile, for only there are classes archived."""
    before = os.environ.get(CLASS_PATH)
    if place.master is None:
        os.environ[CLASS_PATH] = ":".join(filter(None, (before, driver_class_path(place.jars))))
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(CLASS_PATH, None)
        else:
            os.environ[CLASS_PATH] = before


def _quick_checkpoints(jars: Sequence[Path]) -> dict[str, str]:
    """Local files without a fork of `chmod` for each, which halves the pause of a checkpoint; docs/adr/0007."""
    (jar,) = (jar for jar in jars if jar.name.startswith("hadoop-bare-naked-local-fs"))
    return {
        "spark.driver.extraClassPath": str(jar),
        "spark.hadoop.fs.file.impl": "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem",
        "spark.sql.streaming.checkpointFileManagerClass": FILE_MANAGER,
    }


def batch_metadata(spark: SparkSession) -> dict[str, Any]:
    """What Spark would note beside a first batch: no watermark, the time, and the settings its state depends on."""
    log = spark._jvm.org.apache.spark.sql.execution.streaming.checkpointing  # type: ignore[union-attr]  # noqa: SLF001
    noted = log.OffsetSeqMetadata.apply(0, time.time_ns() // 1_000_000, spark._jsparkSession.conf())  # noqa: SLF001
    metadata: dict[str, Any] = json.loads(noted.json())
    # Some settings reach it as null; each is known to the session.
    metadata["conf"] = {name: value or spark.conf.get(name) for name, value in metadata["conf"].items()}
    return metadata


def process_of(spark: SparkSession) -> int:
    """The process id of the session's Java."""
    return int(spark._jvm.java.lang.ProcessHandle.current().pid())  # type: ignore[union-attr]  # noqa: SLF001


def start_session(place: SparkPlace) -> SparkSession:
    """Start Spark, quiet on the console: what it says goes to the log file."""
    if place.on_this_machine:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else workers are the system's Python, without us
    settings = {
        **SETTINGS,
        **(_on_this_machine() if place.on_this_machine else {}),
        **(_quick_checkpoints(place.jars) if place.master is None else {}),
        "spark.master": place.master or f"local[{place.slots}]",
        **({} if place.master is None else {"spark.jars": ",".join(map(str, place.jars))}),
        "spark.local.dir": str(place.scratch),
        "spark.sql.warehouse.dir": str(place.scratch / "warehouse"),
        "spark.driver.memory": "3g",
        "spark.driver.extraJavaOptions": _java_options(place),
        "spark.executor.extraJavaOptions": " ".join(_everywhere()),
    }
    builder = SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    with _class_path(place):
        spark = builder.getOrCreate()
    if place.master is None and os.environ["PYSPARK_PYTHON"] == sys.executable:
        spark.sparkContext.pythonExec = worker_python(place.scratch)
    return spark
