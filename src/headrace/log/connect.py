"""How every client of this room reaches the broker, and what it says when it cannot."""

import logging
from functools import partial

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ClusterMetadata  # type: ignore[attr-defined]  # public, unmarked

from headrace.errors import HeadraceError
from headrace.log.dialects import librdkafka_words
from headrace.log.repeated_messages import RepeatFilter
from headrace.log.security import security_of
from headrace.log.strangers import is_listening, unreachable

REACH_SECONDS = 10.0  # nobody is there who has not taken a connection by then
ANSWER_SECONDS = 60.0  # who has taken one may be busy: so is the machine of a broker that starts beside everything else
LOGGER = logging.getLogger("headrace.kafka")
LOGGER.addFilter(RepeatFilter())
LOGGER.addHandler(logging.NullHandler())  # silent unless the program that uses Headrace sets up logging
UNREACHABLE = {"_TRANSPORT", "_TIMED_OUT", "_ALL_BROKERS_DOWN", "_RESOLVE"}
CLOSED_DOORS = {"_AUTHENTICATION", "_SSL"}
SOON_SECONDS = 2.0
_SAID: dict[str, str] = {}  # by broker, why it lets nobody in, as the client heard it last

Settings = dict[str, str | int | float | bool]


class BrokerRefused(HeadraceError):
    """The broker answered, and said no."""

    def __init__(self, broker: str, what: str, error: KafkaError) -> None:
        super().__init__(f"The Kafka broker at {broker!r} refused to {what}: {error.str()} ({error.name()}).")


def client_settings(broker: str) -> Settings:
    """What every client has in common: the address, who it is there, and how soon one that came back is found again."""
    security = security_of(broker)
    return {
        **({} if security is None else librdkafka_words(security)),
        "bootstrap.servers": broker,
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 1000,
        "topic.metadata.refresh.interval.ms": 30_000,
        "log.connection.close": False,
    }


def admin_client(broker: str) -> AdminClient:
    """A client for topics and offsets; its own log goes to ours, not to the terminal."""
    settings = {**client_settings(broker), "error_cb": partial(_note, broker)}
    return AdminClient(settings, logger=LOGGER)  # type: ignore[arg-type]  # its types know no callbacks


def metadata(admin: AdminClient, broker: str, timeout: float = ANSWER_SECONDS) -> ClusterMetadata:
    """Topics and partitions as the broker knows them now."""
    try:
        return _asked(admin, broker, timeout)
    except KafkaException as failure:
        raise unreachable(broker, _SAID.get(broker, "")) from failure


def _asked(admin: AdminClient, broker: str, timeout: float) -> ClusterMetadata:
    """Ask; who is not let in is told so soon, who finds nobody a little later, and not only when the time is over."""
    _SAID.pop(broker, None)
    limits = [REACH_SECONDS] if security_of(broker) is None else [SOON_SECONDS, REACH_SECONDS]
    spent = 0.0
    for limit in (limit for limit in limits if limit < timeout):
        try:
            return admin.list_topics(timeout=limit - spent)
        except KafkaException:
            admin.poll(0)  # hears what the client has to say
            if broker in _SAID or (limit == REACH_SECONDS and not is_listening(broker)):
                raise
        spent = limit
    return admin.list_topics(timeout=timeout - spent)


def _note(broker: str, error: KafkaError) -> None:
    if error.name() == "_AUTHENTICATION" or "certificate" in error.str():
        _SAID[broker] = error.str()


def refusal(broker: str, what: str, failure: KafkaException) -> HeadraceError:
    """Our error for one of the client's: unreachable, or refused and why."""
    error: KafkaError = failure.args[0]
    if error.name() in UNREACHABLE | CLOSED_DOORS:
        return unreachable(broker, _SAID.get(broker, ""))
    return BrokerRefused(broker, what, error)
