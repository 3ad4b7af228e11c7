"""How every client of this room reaches the broker, and what it says when it cannot."""

import logging

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ClusterMetadata  # type: ignore[attr-defined]  # public, unmarked

from headrace.errors import HeadraceError

ANSWER_SECONDS = 10.0
LOGGER = logging.getLogger("headrace.kafka")
LOGGER.addHandler(logging.NullHandler())  # silent unless the program that uses Headrace sets up logging
UNREACHABLE = {"_TRANSPORT", "_TIMED_OUT", "_ALL_BROKERS_DOWN", "_RESOLVE"}

Settings = dict[str, str | int | float | bool]


class BrokerUnreachable(HeadraceError):
    """No broker answered at the address."""

    def __init__(self, broker: str) -> None:
        super().__init__(
            f"No Kafka broker answers at {broker!r}. "
            "Start it, or give the address of one that runs with --broker HOST:PORT."
        )
        self.broker = broker


class BrokerRefused(HeadraceError):
    """The broker answered, and said no."""

    def __init__(self, broker: str, what: str, error: KafkaError) -> None:
        super().__init__(f"The Kafka broker at {broker!r} refused to {what}: {error.str()} ({error.name()}).")


def client_settings(broker: str) -> Settings:
    """What every client has in common: the address, and how soon a broker that came back is found again."""
    return {
        "bootstrap.servers": broker,
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 1000,
        "topic.metadata.refresh.interval.ms": 30_000,
        "log.connection.close": False,
    }


def admin_client(broker: str) -> AdminClient:
    """A client for topics and offsets; its own log goes to ours, not to the terminal."""
    return AdminClient(client_settings(broker), logger=LOGGER)


def metadata(admin: AdminClient, broker: str, timeout: float = ANSWER_SECONDS) -> ClusterMetadata:
    """Topics and partitions as the broker knows them now."""
    try:
        return admin.list_topics(timeout=timeout)
    except KafkaException as failure:
        raise BrokerUnreachable(broker) from failure


def refusal(broker: str, what: str, failure: KafkaException) -> HeadraceError:
    """Our error for one of the client's: unreachable, or refused and why."""
    error: KafkaError = failure.args[0]
    if error.name() in UNREACHABLE:
        return BrokerUnreachable(broker)
    return BrokerRefused(broker, what, error)
