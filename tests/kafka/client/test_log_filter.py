import logging

from headrace.kafka.client.log_filter import RepeatedMessageFilter

REFUSED = (
    "FAIL [rdkafka#consumer-{0}] [thrd:127.0.0.1:9092/bootstrap]: 127.0.0.1:9092/bootstrap: "
    "Connect to ipv4#127.0.0.1:9092 failed: Connection refused (after {0}ms in state CONNECT)"
)


def record(message: str) -> logging.LogRecord:
    return logging.LogRecord("headrace.kafka", logging.ERROR, "", 0, message, None, None)


def test_what_many_clients_repeat_is_logged_once_a_minute() -> None:
    now = [0.0]
    repeats = RepeatedMessageFilter(60.0, lambda: now[0])
    passed = 0
    for second in range(180):
        now[0] = float(second)
        passed += sum(repeats.filter(record(REFUSED.format(client))) for client in range(50))
    assert passed == 3


def test_what_is_said_of_another_broker_or_for_another_reason_is_logged() -> None:
    repeats = RepeatedMessageFilter(60.0, lambda: 0.0)
    assert repeats.filter(record(REFUSED.format(1)))
    assert repeats.filter(record(REFUSED.format(1).replace("9092", "9093")))
    assert repeats.filter(record(REFUSED.format(1).replace("refused", "reset by peer")))
    assert not repeats.filter(record(REFUSED.format(2)))
