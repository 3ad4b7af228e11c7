import subprocess
import sys

import pytest

LOADED = "import sys, {module}; print(sum(name.split('.')[0] == {package!r} for name in sys.modules))"


def modules_loaded(module: str, package: str) -> int:
    program = LOADED.format(module=module, package=package)
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return int(ran.stdout)


# import-linter reads the imports as written; this sees what a fresh process really loads.
@pytest.mark.parametrize(
    "module",
    [
        "headrace",
        "headrace.server.server",
        "headrace.telemetry.alerts.alert_part",
        "headrace.connectors.sinks.sink_part",
        "headrace.cli",
        "headrace.testing",
    ],
)
def test_a_process_that_does_not_compute_never_loads_spark(module):
    assert modules_loaded(module, "pyspark") == 0


@pytest.mark.parametrize("module", ["headrace", "headrace.testing"])
def test_declaring_and_testing_a_feature_never_load_the_kafka_client(module):
    assert modules_loaded(module, "confluent_kafka") == 0


def test_an_app_without_tables_never_loads_arrow():
    assert modules_loaded("headrace.server.server", "pyarrow") == 0


def test_a_server_leaves_duckdb_to_its_process_of_queries():
    assert modules_loaded("headrace.server.server", "duckdb") == 0


@pytest.mark.parametrize("package", ["pyspark", "pyarrow", "confluent_kafka"])
def test_reading_quality_loads_neither_spark_nor_arrow_nor_the_kafka_client(package):
    assert modules_loaded("headrace.monitoring.quality.quality_table", package) == 0


def test_scoring_needs_the_runtime_alone():
    program = (
        "import sys, headrace.models.versions.version_loader; print(*{name.split('.')[0] for name in sys.modules})"
    )
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert "onnxruntime" in loaded
    assert not {"pyspark", "pyarrow", "pandas", "sklearn", "onnx"} & set(loaded)
