"""Which topics a command writes, and in whose name: an app with its state folder.

up, run APP stream, run APP operate     claim what they write: two of them with two state folders would write it twice
run APP score, sink, lake               share what they write, with others of the same app on other machines
"""

import os
import socket
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from headrace.cli.run import broker_of
from headrace.cli.settings import Settings
from headrace.declare.app import App
from headrace.declare.derivation import Derived, Operation
from headrace.declare.name_collisions import written_topics
from headrace.log.topic_owners import OwnedByOther, Owner, claim_topics, held_while, read_owners, require_unowned
from headrace.log.topics import fates_of, topics_of_model

FILE = "app.id"
CLAIMING = ("stream", "operate")


def owner_of(app: App, state: Path) -> Owner:
    """The app and the id of its state folder, which is made with the folder."""
    return Owner(_id_of(state), app.name, socket.gethostname())


def _id_of(state: Path) -> str:
    file = state / FILE
    if not file.exists():
        state.mkdir(parents=True, exist_ok=True)
        new = uuid4().hex
        draft = state / f".{FILE}.{new}"
        draft.write_text(new)
        try:
            os.link(draft, file)  # of two that make one at the same moment the first counts
        except FileExistsError:
            pass
        finally:
            draft.unlink()
    return file.read_text().strip()


def claim_all(app: App, settings: Settings) -> None:
    """Hold every topic that an app writes, or refuse to start it."""
    owner = owner_of(app, settings.state)
    claim_topics(broker_of(settings), owner, written_topics(app), take_over=settings.take_over)


def require_unowned_topics(app: App, settings: Settings) -> None:
    """Refuse an app whose topics another one holds; nothing is written."""
    file = settings.state / FILE
    owner = Owner(file.read_text().strip() if file.exists() else "", app.name)
    if not settings.take_over:
        require_unowned(broker_of(settings), owner, written_topics(app))


@contextmanager
def ownership(app: App, settings: Settings, part: str, stop: threading.Event) -> Iterator[None]:
    """Hold what a part writes while it runs: it is stopped once another app has taken that over."""
    topics = topics_of_part(app, part)
    if not topics:
        yield
        return
    broker, owner = broker_of(settings), owner_of(app, settings.state)
    if part in CLAIMING:
        claim_topics(broker, owner, topics, take_over=settings.take_over)
        with held_while(broker, owner, topics, stop.set):
            yield
        return
    _require_shared(broker, owner, topics)
    yield


def _require_shared(broker: str, owner: Owner, topics: Collection[str]) -> None:
    """Refuse topics of an app with another name; its own parts elsewhere have other state folders."""
    held = read_owners(broker).held_by_others(owner, topics)
    foreign = {topic: one for topic, one in held.items() if owner.app != one.app and owner.id != one.id}
    if foreign:
        raise OwnedByOther(foreign)


def topics_of_part(app: App, part: str) -> list[str]:
    """The topics that a part writes, and that belong to one app."""
    made = [stream for stream in app.streams if isinstance(stream, Derived)]
    match part:
        case "stream":
            gates = [topic for stream in app.streams for topic in fates_of(stream)]
            functions = [one.name for one in made if not isinstance(one.made_by, Operation)]
            return [*gates, *functions, *(view.topic for view in app.views if not view.captured)]
        case "operate":
            clocks = [one.clock for one in app.derivations if isinstance(one, Operation)]
            outputs = [one.name for one in made if isinstance(one.made_by, Operation)]
            return [*clocks, *outputs, *(view.topic for view in app.views if view.captured)]
        case "score":
            return [model.predictions for model in app.models]
        case "lake":
            return [topic.name for model in app.models for topic in topics_of_model(model, 1)[1:]]
        case "sink":
            return [topic for sink in app.sinks for topic in (sink.parked, sink.again)]
    return []
