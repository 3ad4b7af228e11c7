"""One sentence for each exception of Spark, Java and Py4J; the texts are those of Spark 4.3."""

import socket

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException

from headrace.errors import HeadraceError
from headrace.spark.session.error_summary import JAVA_IS_GONE, MAX_LENGTH, is_java_gone, summarize_spark_error

STREAMING = """\
[STREAM_FAILED] Query pay.gate [id = c6bd0b39, runId = c17e8569] terminated with exception: {} SQLSTATE: XXKST
=== Streaming Query ===
Identifier: pay.gate [id = c6bd0b39, runId = c17e8569]
Current Committed Offsets: {{}}

Logical Plan:
+- ~StreamingDataSourceV2ScanRelation[key#26, value#27] KafkaTable"""
PYTHON = """\
Traceback (most recent call last):
  File "app.py", line 19, in score
    ask(row)
    ^^^^^^^^
ConnectionRefusedError: the service is down"""
RAISED = f"[PYTHON_EXCEPTION] An exception was thrown from the Python worker: {PYTHON}\n SQLSTATE: 38000"
DIVIDED = """\
[DIVIDE_BY_ZERO] Division by zero. Use `try_divide` to tolerate divisor being 0. \
If necessary set "spark.sql.ansi.enabled" to "false" to bypass this error. SQLSTATE: 22012
== SQL (line 1, position 1) ==
1/(value - value)
^^^^^^^^^^^^^^^^^
"""
NOT_READ = """\
An error occurred while calling o211.collectToPython.
: org.apache.spark.SparkException: [FAILED_READ_FILE.NO_HINT] Encountered error while reading file a.parquet.  \
SQLSTATE: KD001
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.cannotReadFilesError(QueryExecutionErrors.scala:920)
\tat java.base/java.lang.Thread.run(Thread.java:840)
Caused by: java.lang.RuntimeException: no Parquet.
\t... 1 more"""
NOT_CONNECTED = """\
org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 3.0 failed 1 times, most recent \
failure: Lost task 0.0 in stage 3.0 (TID 12) (127.0.0.1 executor driver): org.apache.spark.SparkException: Python \
worker failed to connect back.
\tat org.apache.spark.api.python.PythonWorkerFactory.createSimpleWorker(PythonWorkerFactory.scala:252)
Caused by: java.net.SocketTimeoutException: Accept timed out
\tat org.apache.spark.api.python.PythonWorkerFactory.createSimpleWorker(PythonWorkerFactory.scala:245)

Driver stacktrace:
\tat org.apache.spark.scheduler.DAGScheduler.runJob(DAGScheduler.scala:1549)
"""
UNRESOLVED = """\
[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column with name `x` cannot be resolved. Did you mean [`id`]. SQLSTATE: 42703;
'Project ['x]
+- Range (0, 3, step=1, splits=Some(2))
"""
UNPARSED = """
[PARSE_SYNTAX_ERROR] Syntax error at or near 'selec'. SQLSTATE: 42601 (line 1, pos 0)

== SQL ==
selec 1
^^^
"""
KAFKA = "org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node assignment. Call: listNodes"
NO_SUM = "Checksum error: file:/state/offsets/0 at 0 exp: -424521082 got: -492065676"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (STREAMING.format(RAISED), "ConnectionRefusedError: the service is down"),
        (f"An exception was thrown from the Python worker:\n{PYTHON}", "ConnectionRefusedError: the service is down"),
        (
            STREAMING.format(DIVIDED),
            "[DIVIDE_BY_ZERO] Division by zero. Use `try_divide` to tolerate divisor being 0.",
        ),
        (STREAMING.format(KAFKA), KAFKA.removeprefix("org.apache.kafka.common.errors.")),
        (STREAMING.format(NO_SUM), NO_SUM),
        (
            NOT_READ,
            "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file a.parquet: RuntimeException: no Parquet.",
        ),
        (
            STREAMING.format(NOT_CONNECTED),
            "Python worker failed to connect back: SocketTimeoutException: Accept timed out",
        ),
        (
            UNRESOLVED,
            "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column with name `x` cannot be resolved. Did you mean [`id`].",
        ),
        (UNPARSED, "[PARSE_SYNTAX_ERROR] Syntax error at or near 'selec'. (line 1, pos 0)"),
        ('For input string: "x"', 'For input string: "x"'),
        ("", "PySparkException"),
    ],
)
def test_an_error_of_spark_becomes_its_root_cause_in_one_line(text: str, sentence: str) -> None:
    assert summarize_spark_error(PySparkException(text)) == sentence
    assert summarize_spark_error(Py4JError(text)) == sentence.replace("PySparkException", "Py4JError")


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (HeadraceError("views.py:3: V: no column\n'amount'. Add it."), "views.py:3: V: no column 'amount'. Add it."),
        (ValueError("bad literal"), "ValueError: bad literal"),
        (KeyError("card"), "KeyError: 'card'"),
        (AssertionError(), "AssertionError"),
        (Py4JNetworkError("Answer from Java side is empty"), JAVA_IS_GONE),
    ],
)
def test_other_errors_keep_their_words(error: Exception, sentence: str) -> None:
    assert summarize_spark_error(error) == sentence


def test_a_sentence_is_cut_at_a_word() -> None:
    sentence = summarize_spark_error(PySparkException("row " * 200))
    assert len(sentence) <= MAX_LENGTH
    assert sentence.endswith("row …")


def test_an_error_whose_text_only_java_knows_is_named_where_java_is_gone() -> None:
    class NotTold(PySparkException):
        def __str__(self) -> str:
            raise Py4JNetworkError("Answer from Java side is empty")

    assert summarize_spark_error(NotTold("told")) == "told"


def test_a_refused_connection_means_that_java_is_gone_where_py4j_made_it() -> None:
    from py4j.java_gateway import GatewayParameters, JavaGateway

    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))  # bound, but not listening
        gateway = JavaGateway(gateway_parameters=GatewayParameters(port=unheard.getsockname()[1]))
        with pytest.raises(Exception) as refused:  # noqa: PT011  # whichever Py4J chooses
            gateway.jvm.java.lang.System.currentTimeMillis()
        with pytest.raises(ConnectionRefusedError) as elsewhere:
            socket.create_connection(unheard.getsockname(), timeout=5)
    assert is_java_gone(refused.value)
    assert not is_java_gone(elsewhere.value)
    assert summarize_spark_error(elsewhere.value).startswith("ConnectionRefusedError")
