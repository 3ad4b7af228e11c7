"""The topics that a command writes, and their owner: an app with its state folder.

up, run APP stream, run APP operate     claim their topics: two of them with two state folders would write duplicates
run APP score, sink, evaluate           share their topics with parts of the same app on other machines
"""

import os
import socket
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from headrace.declare.app import App
from headrace.declare.name_collisions import list_written_topics
from headrace.declare.operations.derived_stream import DerivedStream, StreamOperation
from headrace.kafka.topic_owners import (
    OwnershipConflictError,
    TopicOwner,
    claim_topics,
    hold_topics,
    read_ownership,
    require_no_other_owner,
)
from headrace.kafka.topics import fate_topics, model_topics
from headrace.runtime.part_runner import broker_address
from headrace.runtime.settings import Settings

APP_ID_FILE = "app.id"
EXCLUSIVE_PARTS = ("stream", "operate")


def topic_owner(app: App, state: Path) -> TopicOwner:
    """The app and the id of its state folder; creates a missing folder with an id."""
    return TopicOwner(_read_or_create_id(state), app.name, socket.gethostname())


def _read_or_create_id(state: Path) -> str:
    file = state / APP_ID_FILE
    if not file.exists():
        state.mkdir(parents=True, exist_ok=True)
        new_id = uuid4().hex
        draft = state / f".{APP_ID_FILE}.{new_id}"
        draft.write_text(new_id)
        try:
            os.link(draft, file)  # of two concurrent processes, the first one sets the id
        except FileExistsError:
            pass
        finally:
            draft.unlink()
    return file.read_text().strip()


def claim_app_topics(app: App, settings: Settings) -> None:
    """Claim every topic that an app writes; raises if another app owns one."""
    owner = topic_owner(app, settings.state)
    claim_topics(broker_address(settings), owner, list_written_topics(app), take_over=settings.take_over)


def require_unowned_topics(app: App, settings: Settings) -> None:
    """Raise if another app owns a topic of this app; claims nothing."""
    file = settings.state / APP_ID_FILE
    owner = TopicOwner(file.read_text().strip() if file.exists() else "", app.name)
    if not settings.take_over:
        require_no_other_owner(broker_address(settings), owner, list_written_topics(app))


@contextmanager
def hold_part_topics(app: App, settings: Settings, part: str, stop: threading.Event) -> Iterator[None]:
    """Hold the topics of a part while it runs; sets `stop` if another app takes them over."""
    topics = part_topics(app, part)
    if not topics:
        yield
        return
    broker, owner = broker_address(settings), topic_owner(app, settings.state)
    if part in EXCLUSIVE_PARTS:
        claim_topics(broker, owner, topics, take_over=settings.take_over)
        with hold_topics(broker, owner, topics, stop.set):
            yield
        return
    _require_same_app(broker, owner, topics)
    yield


def _require_same_app(broker: str, owner: TopicOwner, topics: Collection[str]) -> None:
    """Raise if an app with another name owns a topic; parts of this app elsewhere have other state folders."""
    owners = read_ownership(broker).topics_of_others(owner, topics)
    foreign_owners = {
        topic: holder for topic, holder in owners.items() if owner.app != holder.app and owner.id != holder.id
    }
    if foreign_owners:
        raise OwnershipConflictError(foreign_owners)


def part_topics(app: App, part: str) -> list[str]:
    """The topics that a part writes and that one app owns."""
    derived_streams = [stream for stream in app.streams if isinstance(stream, DerivedStream)]
    match part:
        case "stream":
            gate_topics = [topic for stream in app.streams for topic in fate_topics(stream)]
            function_topics = [
                derivation.name for derivation in derived_streams if not isinstance(derivation.made_by, StreamOperation)
            ]
            return [*gate_topics, *function_topics, *(view.topic for view in app.views if not view.captured_table)]
        case "operate":
            clock_topics = [one.clock for one in app.derivations if isinstance(one, StreamOperation)]
            output_topics = [one.name for one in derived_streams if isinstance(one.made_by, StreamOperation)]
            return [*clock_topics, *output_topics, *(view.topic for view in app.views if view.captured_table)]
        case "score":
            return [model.predictions for model in app.models]
        case "evaluate":
            return [topic.name for model in app.models for topic in model_topics(model, 1)[1:]]
        case "sink":
            return [topic for sink in app.sinks for topic in (sink.parked, sink.again)]
    return []
