"""Settings and errors that all Kafka clients of this package share."""

import logging
from functools import partial

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ClusterMetadata  # type: ignore[attr-defined]  # public, unmarked

from headrace.errors import HeadraceError
from headrace.kafka.client.connection_diagnosis import diagnose_connection, is_listening
from headrace.kafka.client.log_filter import RepeatedMessageFilter
from headrace.kafka.client.security import find_security_config
from headrace.kafka.client.security_properties import librdkafka_properties

CONNECT_TIMEOUT_SECONDS = 10.0  # a broker that accepts no connection by then is down
REQUEST_TIMEOUT_SECONDS = (
    60.0  # a broker that accepted one may be busy, as on a machine where everything starts at once
)
LOGGER = logging.getLogger("headrace.kafka")
LOGGER.addFilter(RepeatedMessageFilter())
LOGGER.addHandler(logging.NullHandler())  # silent unless the application configures logging
UNREACHABLE_ERRORS = {"_TRANSPORT", "_TIMED_OUT", "_ALL_BROKERS_DOWN", "_RESOLVE"}
SECURITY_ERRORS = {"_AUTHENTICATION", "_SSL"}
FIRST_CHECK_SECONDS = 2.0
_LAST_SECURITY_ERRORS: dict[str, str] = {}  # by broker, the last authentication error of the client

ClientSettings = dict[str, str | int | float | bool]


class BrokerRefused(HeadraceError):
    """The broker refused a request."""

    def __init__(self, broker: str, action: str, error: KafkaError) -> None:
        super().__init__(f"The Kafka broker at {broker!r} refused to {action}: {error.str()} ({error.name()}).")


def client_settings(broker: str) -> ClientSettings:
    """The settings of every client: the address, the credentials, and quick reconnects."""
    security = find_security_config(broker)
    return {
        **({} if security is None else librdkafka_properties(security)),
        "bootstrap.servers": broker,
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 1000,
        "topic.metadata.refresh.interval.ms": 30_000,
        "log.connection.close": False,
    }


def create_admin_client(broker: str) -> AdminClient:
    """A client for topics and offsets; its log goes to our logger, not to the terminal."""
    settings = {**client_settings(broker), "error_cb": partial(_note_security_error, broker)}
    return AdminClient(settings, logger=LOGGER)  # type: ignore[arg-type]  # its types know no callbacks


def fetch_metadata(admin: AdminClient, broker: str, timeout: float = REQUEST_TIMEOUT_SECONDS) -> ClusterMetadata:
    """The current topics and partitions of the broker."""
    try:
        return _list_topics(admin, broker, timeout)
    except KafkaException as failure:
        raise diagnose_connection(broker, _LAST_SECURITY_ERRORS.get(broker, "")) from failure


def _list_topics(admin: AdminClient, broker: str, timeout: float) -> ClusterMetadata:
    """List topics; fails fast on an authentication error, a little later without a connection, else at the time-out."""
    _LAST_SECURITY_ERRORS.pop(broker, None)
    limits = (
        [CONNECT_TIMEOUT_SECONDS]
        if find_security_config(broker) is None
        else [FIRST_CHECK_SECONDS, CONNECT_TIMEOUT_SECONDS]
    )
    spent_s = 0.0
    for limit in (limit for limit in limits if limit < timeout):
        try:
            return admin.list_topics(timeout=limit - spent_s)
        except KafkaException:
            admin.poll(0)  # runs the client's callbacks
            if broker in _LAST_SECURITY_ERRORS or (limit == CONNECT_TIMEOUT_SECONDS and not is_listening(broker)):
                raise
        spent_s = limit
    return admin.list_topics(timeout=timeout - spent_s)


def _note_security_error(broker: str, error: KafkaError) -> None:
    if error.name() == "_AUTHENTICATION" or "certificate" in error.str():
        _LAST_SECURITY_ERRORS[broker] = error.str()


def to_headrace_error(broker: str, action: str, failure: KafkaException) -> HeadraceError:
    """Our error for one of the client's: unreachable, or refused and why."""
    error: KafkaError = failure.args[0]
    if error.name() in UNREACHABLE_ERRORS | SECURITY_ERRORS:
        return diagnose_connection(broker, _LAST_SECURITY_ERRORS.get(broker, ""))
    return BrokerRefused(broker, action, error)
