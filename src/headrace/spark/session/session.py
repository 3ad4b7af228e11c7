"""The Spark session of a streaming process, with settings for fast real-time mode and safe state."""

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

from headrace.kafka.client.security_properties import REDACTED_OPTIONS, jvm_properties
from headrace.spark.session.class_archive import archive_options, driver_class_path
from headrace.spark.session.worker_launcher import write_worker_launcher

DRIVER_MEMORY = "3g"
LOG4J_FILE = Path(__file__).with_name("log4j2.properties")
CLASS_PATH_VARIABLE = "SPARK_DIST_CLASSPATH"  # read by spark-submit, behind Spark's own jars

CORES_FOR_TWO_COMPILERS = 4
FEW_CORES_JAVA_OPTIONS = (
    "-XX:TieredStopAtLevel=1",
    "-XX:CompileThresholdScaling=0.1",
    "-XX:-DontCompileHugeMethods",  # Spark's generated methods are often longer than Java compiles by default
    "-XX:+UseParallelGC",
    # A single compiler gets 48 MB, which queries and the lake together fill: then nothing more is compiled.
    "-XX:ReservedCodeCacheSize=240m",
)
# Avro's decoder allocates a declared length before reading its bytes: this limits it to what a record can have.
MAX_RECORD_BYTES = 16 << 20
AVRO_LIMIT_OPTIONS = " ".join(
    f"-Dorg.apache.avro.limits.{what}.maxLength={MAX_RECORD_BYTES}" for what in ("string", "bytes", "collectionItems")
)
LOOPBACK_HOSTS = {"127.0.0.1", "localhost", "::1"}
FILE_MANAGER = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

SPARK_SETTINGS: Mapping[str, str] = {
    "spark.app.name": "headrace",
    # Credentials of a broker are among the options of sources and sinks, under names that Spark does not redact.
    "spark.redaction.regex": REDACTED_OPTIONS,
    "spark.sql.redaction.options.regex": REDACTED_OPTIONS,
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
    # Needed to continue the same checkpoint in the other lane.
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.sql.streaming.minBatchesToRetain": "10",
    "spark.sql.streaming.numRecentProgressUpdates": "5",
    # How long a Python worker waits for Java's response; the default of 15 s is too short on a busy machine.
    "spark.python.authenticate.socketTimeout": "120s",
}


@dataclass(frozen=True)
class SparkSessionConfig:
    """Spark's master, the task slots it needs, and its jars."""

    master: str | None
    task_slots: int
    jars: Sequence[Path]
    scratch: Path
    is_streaming: bool = True  # a stream needs its code compiled early rather than well
    java_options: Sequence[str] | None = None  # instead of those for the class archive
    driver_memory: str | None = None  # the maximum heap; DRIVER_MEMORY without it

    @property
    def is_local(self) -> bool:
        """Whether all executors are on this machine."""
        return self.master is None or (urlsplit(self.master).hostname or "") in LOOPBACK_HOSTS


def _driver_java_options(config: SparkSessionConfig) -> str:
    """For streams on few cores one early compiler: the second occupies a core for minutes. docs/adr/0007."""
    has_few_cores = (os.cpu_count() or 1) < CORES_FOR_TWO_COMPILERS
    options = [f"-Dlog4j2.configurationFile={LOG4J_FILE.as_uri()}", *_common_java_options()]
    if config.master is None:
        options += archive_options(config.jars) if config.java_options is None else config.java_options
    return " ".join([*options, *FEW_CORES_JAVA_OPTIONS] if has_few_cores and config.is_streaming else options)


def _common_java_options() -> list[str]:
    """The options of drivers and executors: Avro's allocation limit, and those for reaching the broker."""
    return [AVRO_LIMIT_OPTIONS, *(f"-D{name}={value}" for name, value in jvm_properties().items())]


def _loopback_settings() -> dict[str, str]:
    return {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}


@contextmanager
def _temporary_class_path(config: SparkSessionConfig) -> Iterator[None]:
    """Put the jars on the class path of a driver started within the block: only classes found there are archived."""
    previous = os.environ.get(CLASS_PATH_VARIABLE)
    if config.master is None:
        os.environ[CLASS_PATH_VARIABLE] = ":".join(filter(None, (previous, driver_class_path(config.jars))))
    try:
        yield
    finally:
        if previous is None:
            os.environ.pop(CLASS_PATH_VARIABLE, None)
        else:
            os.environ[CLASS_PATH_VARIABLE] = previous


def _fast_checkpoint_settings(jars: Sequence[Path]) -> dict[str, str]:
    """Write local files without a fork of `chmod` for each, which halves the pause of a checkpoint; docs/adr/0007."""
    (jar,) = (jar for jar in jars if jar.name.startswith("hadoop-bare-naked-local-fs"))
    return {
        "spark.driver.extraClassPath": str(jar),
        "spark.hadoop.fs.file.impl": "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem",
        "spark.sql.streaming.checkpointFileManagerClass": FILE_MANAGER,
    }


def batch_metadata(spark: SparkSession) -> dict[str, Any]:
    """What Spark would store with a first batch: no watermark, the time, and the settings its state depends on."""
    checkpointing = spark._jvm.org.apache.spark.sql.execution.streaming.checkpointing  # type: ignore[union-attr]  # noqa: SLF001
    offset_metadata = checkpointing.OffsetSeqMetadata.apply(0, time.time_ns() // 1_000_000, spark._jsparkSession.conf())  # noqa: SLF001
    metadata: dict[str, Any] = json.loads(offset_metadata.json())
    # Some settings are null here; the session knows each of them.
    metadata["conf"] = {name: value or spark.conf.get(name) for name, value in metadata["conf"].items()}
    return metadata


def java_process_id(spark: SparkSession) -> int:
    """The process id of the session's Java."""
    return int(spark._jvm.java.lang.ProcessHandle.current().pid())  # type: ignore[union-attr]  # noqa: SLF001


def start_session(config: SparkSessionConfig) -> SparkSession:
    """Start Spark, quiet on the console: its log goes to the log file."""
    if config.is_local:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else workers run the system's Python
    settings = {
        **SPARK_SETTINGS,
        **(_loopback_settings() if config.is_local else {}),
        **(_fast_checkpoint_settings(config.jars) if config.master is None else {}),
        "spark.master": config.master or f"local[{config.task_slots}]",
        **({} if config.master is None else {"spark.jars": ",".join(map(str, config.jars))}),
        "spark.local.dir": str(config.scratch),
        "spark.sql.warehouse.dir": str(config.scratch / "warehouse"),
        "spark.driver.memory": config.driver_memory or DRIVER_MEMORY,
        "spark.driver.extraJavaOptions": _driver_java_options(config),
        "spark.executor.extraJavaOptions": " ".join(_common_java_options()),
    }
    builder = SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    with _temporary_class_path(config):
        spark = builder.getOrCreate()
    if config.master is None and os.environ["PYSPARK_PYTHON"] == sys.executable:
        spark.sparkContext.pythonExec = write_worker_launcher(config.scratch)
    return spark
