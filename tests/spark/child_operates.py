"""Runs an operation until it is killed: python -m … BROKER FOLDER NAME."""

import sys
import time
from pathlib import Path

from headrace.embedded_servers.jars import jar_paths
from headrace.spark.session.session import SparkSessionConfig, start_session
from headrace.spark.stateful.operation_query import OperationRunner
from tests.spark.echo_operation import Echo, keyed_of, operation_of, payments, spec_of


def main(broker: str, folder: Path, name: str) -> None:
    spark = start_session(SparkSessionConfig(None, 2, jar_paths("spark"), folder / "scratch"))
    keyed = keyed_of(broker, operation_of(name, [payments(f"{name}-in0")], Echo()))
    runner = OperationRunner(spark, spec_of(keyed, folder))
    runner.start()
    said = -1
    while runner.is_alive():
        batch = runner.last_progress().get("batchId", -1)
        if batch != said:
            sys.stdout.write(f"ran {batch}\n")
            sys.stdout.flush()
            said = batch
        time.sleep(0.02)
    raise SystemExit(str(runner.failure))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
