"""Why a process ended: one sentence of its log, without a traceback or a password."""

import pytest

from headrace.embedded_servers.exit_reason import MAX_LENGTH, exit_reason, first_sentence

PYTHON = """2026-01-01 12:00:00,123 INFO headrace.lake: landing
2026-01-01 12:00:01,123 ERROR headrace.lake: silver/taps has not landed
Traceback (most recent call last):
  File "/app/main.py", line 3, in <module>
    land()
headrace.lake.errors.NotLanded: The table silver/taps has no statistics.
"""
CHAINED = """Traceback (most recent call last):
  File "a.py", line 1, in <module>
KeyError: 'a'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "b.py", line 1, in <module>
RuntimeError: the second
"""
JAVA = """Traceback (most recent call last):
  File "a.py", line 1, in <module>
py4j.protocol.Py4JJavaError: An error occurred while calling o35.start.
: org.apache.spark.SparkException: Job aborted
\tat org.apache.spark.Foo.bar(Foo.scala:1)
Caused by: java.io.IOException: No space left on device
\tat java.base/java.io.FileOutputStream.write(FileOutputStream.java:1)
"""
SPARK = "26/01/01 12:00:00 ERROR MicroBatchExecution: Query taps.gate terminated with error\n"
KAFKA = "2026-01-01T12:00:00,123 ERROR Exiting Kafka due to fatal exception (Kafka)\n"
CLICK = "2026-01-01 12:00:00,123 WARNING headrace.log: slow\nError: There is no file 'app.py'.\n"


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        (PYTHON, "NotLanded: The table silver/taps has no statistics."),
        (CHAINED, "RuntimeError: the second"),
        (JAVA, "java.io.IOException: No space left on device"),
        (SPARK, "Query taps.gate terminated with error"),
        (KAFKA, "Exiting Kafka due to fatal exception (Kafka)"),
        (CLICK, "There is no file 'app.py'."),
        ("Traceback (most recent call last):\n  File\nKeyboardInterrupt\n", "KeyboardInterrupt"),
        (
            "2026-01-01 12:00:00,1 INFO x: no ERROR here\n",
            "exit code 1; its log ends with: 2026-01-01 12:00:00,1 INFO x: no ERROR here",
        ),
    ],
    ids=["python", "chained", "java", "spark", "kafka", "command", "bare", "none"],
)
def test_the_last_error_of_a_log_is_the_reason(log: str, reason: str) -> None:
    assert exit_reason(log, 1) == reason


def test_a_signal_is_the_reason_whatever_the_log_says() -> None:
    assert exit_reason(PYTHON, -9) == "killed by signal 9 (SIGKILL)"
    assert exit_reason("", -6) == "killed by signal 6 (SIGABRT)"


def test_a_reason_is_one_line_of_bounded_length_without_a_password() -> None:
    long = exit_reason(f"Error: redis://me:canary@host refused {'x' * 5000}\n", 1)
    assert len(long) == MAX_LENGTH
    assert "canary" not in long
    assert first_sentence("The broker has ended. Its log is x.\nline\nline") == "The broker has ended. Its log is x."


def test_one_that_ends_by_itself_says_what_it_last_warned_of() -> None:
    log = "2026-01-01 12:00:00,123 WARNING headrace.lake: 300000 records wait: it is started again\n"
    assert exit_reason(log, 0) == "it ended by itself: 300000 records wait: it is started again"
    assert exit_reason("2026-01-01 12:00:00,123 INFO headrace.lake: landed\n", 0) == "it ended by itself (exit code 0)"
