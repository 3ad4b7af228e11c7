"""What the page asks of commands: each question is a command of its own, run beside the server, and told in JSON.

POST /ask/trace {"id": "p-17"}               ──▶  headrace trace APP --json --since=1h -- p-17
POST /ask/replay {"stream": …, "places": …}  ──▶  headrace dead replay APP payments --json --place=payments-0@42

So the page shows what a command says, and neither the event loop nor its lock waits for a log that is read through.
Each starts a process, so each is a POST: a page of another site can make a browser GET anything without asking.
"""

import asyncio
import sys
import tempfile
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from headrace.cli.run import broker_of
from headrace.cli.settings import Settings
from headrace.declare.app import App
from headrace.local.polite import give_way
from headrace.serve.answers import Answer, BadRequest, TooLarge, Unavailable, WrongType, encode_json, json_of
from headrace.serve.http import Handle, Request, Route, post
from headrace.serve.keys import shown
from headrace.serve.live import NOT_KEPT
from headrace.serve.operations import Operation, Schema, list_of
from headrace.serve.scopes import Scope

AT_ONCE, WAIT_SECONDS = 2, 15.0
LIMIT_SECONDS, HEAVY_LIMIT_SECONDS, GRACE_SECONDS = 60.0, 240.0, 10.0
LONGEST_WORD = 500
MOST_PLACES = 500
MOST_BYTES = 8 << 20
LETTERS = 50
AN_OBJECT = 'an object: {"stream": "payments", "places": ["payments-0@42"]}'
WORD: Schema = {"type": "string", "minLength": 1, "maxLength": LONGEST_WORD}

Asked = Mapping[str, Any]


class Question(NamedTuple):
    """A command that may be asked for, the words it is asked with, the names of what is asked, whether it changes
    something or starts Spark.
    """

    path: str
    words: Callable[[Asked], list[str]]
    names: tuple[str, ...] = ()
    changes: bool = False
    is_heavy: bool = False

    @property
    def limit_s(self) -> float:
        """How long its command may take."""
        return HEAVY_LIMIT_SECONDS if self.is_heavy else LIMIT_SECONDS

    @property
    def operation(self) -> Operation:
        """What the page's own questions take and give: what the command says with --json."""
        summary = f"What `headrace {self.path.rpartition('/')[2]}` says to the dashboard"
        properties = {name: PROPERTIES.get(name, WORD) for name in self.names}
        return Operation(summary, body={"type": "object", "properties": properties})


PROPERTIES: Mapping[str, Schema] = {
    "places": {**list_of(WORD), "minItems": 1, "maxItems": MOST_PLACES},
    "every": {"type": "boolean"},
    "for": {"anyOf": [WORD, {"type": "null"}]},
    "mended": {"type": ["string", "object"]},
}


def asked_of(file: str, app: App, settings: Settings) -> list[Route]:
    """Everything the page may ask, of an app that was started as `file`."""
    room = asyncio.Semaphore(AT_ONCE)
    return [_route(question, room) for question in Questions(file, app, settings).all()]


def _route(question: Question, room: asyncio.Semaphore) -> Route:
    route = post(question.path, _told(question, room), scope=Scope.WRITE if question.changes else Scope.READ)
    limit_s = WAIT_SECONDS + question.limit_s + GRACE_SECONDS
    return replace(route, operation=question.operation, limit_s=limit_s)


def _told(question: Question, room: asyncio.Semaphore) -> Handle:
    async def answer(request: Request) -> Answer:
        asked = _object(request)
        if "mended" not in question.names or "mended" not in asked:
            return await _run(question, question.words(asked), room)
        with tempfile.TemporaryDirectory() as folder:  # on a command line everybody could read it
            letters = Path(folder) / "letters.jsonl"
            letters.write_bytes(_letter(asked))
            return await _run(question, [*question.words(asked), f"--from={letters}"], room)

    return answer


def _letter(asked: Asked) -> bytes:
    try:
        return encode_json({"place": _word(asked, "place"), "value": asked["mended"]})
    except (RecursionError, TypeError, ValueError):
        raise BadRequest("mended is nested too deeply. Write the record as it should have come.") from None


def _object(request: Request) -> dict[str, Any]:
    """The object a request tells; a form of another site cannot say that it is JSON."""
    if (request.header(b"content-type") or b"").split(b";")[0].strip() != b"application/json":
        raise WrongType("Send JSON, and say so: content-type: application/json.")
    asked = json_of(request.body, AN_OBJECT)
    if not isinstance(asked, dict):
        raise BadRequest(f"The body is {shown(asked)}. Write {AN_OBJECT}.")
    return asked


class Questions:
    """The commands that may be asked of an app; names come from it, whatever else is a value and never an option."""

    def __init__(self, file: str, app: App, settings: Settings) -> None:
        self._file = file
        self._streams, self._models = [one.name for one in app.streams], [one.name for one in app.models]
        self._log = f"--broker={broker_of(settings)}"
        self._state = f"--state={settings.state}"
        self._lake = f"--lake={settings.lake or 'off'}"

    def all(self) -> list[Question]:
        return [
            Question("/ask/dead", lambda _: self._verb("dead", "ls", self._log)),
            Question("/ask/letters", self._letters, ("stream", "reason", "every")),
            Question("/ask/replay", self._replay, ("stream", "places", "place", "mended"), changes=True),
            Question("/ask/discard", self._discard, ("stream", "places"), changes=True),
            Question("/ask/trace", self._trace, ("id", "since")),
            Question("/ask/alerts", lambda _: self._verb("alerts", "ls", self._log)),
            Question("/ask/silence", self._silence, ("name", "for"), changes=True),
            Question("/ask/models", lambda _: ["models", "ls", self._file, self._state, "--json"]),
            Question("/ask/card", self._card, ("model", "version")),
            Question("/ask/quality", self._quality, ("model", "window")),
            Question("/ask/drift", self._drift, ("model",)),
            Question("/ask/lateness", self._lateness, ("stream",), is_heavy=True),
        ]

    def _words(self, command: str, *words: str) -> list[str]:
        return [command, self._file, "--json", *words]

    def _verb(self, noun: str, verb: str, *words: str) -> list[str]:
        return [noun, verb, self._file, "--json", *words]

    def _letters(self, asked: Asked) -> list[str]:
        reason = [f"--reason={_word(asked, 'reason')}"] if "reason" in asked else []
        every = ["--every"] if asked.get("every") else []
        return self._verb("dead", "show", self._stream(asked), f"--limit={LETTERS}", self._log, *reason, *every)

    def _replay(self, asked: Asked) -> list[str]:
        chosen = [] if "mended" in asked else _places(asked)
        return self._verb("dead", "replay", self._stream(asked), self._log, *chosen)

    def _discard(self, asked: Asked) -> list[str]:
        return self._verb("dead", "discard", self._stream(asked), "--yes", self._log, *_places(asked))

    def _trace(self, asked: Asked) -> list[str]:
        since = _word(asked, "since") if "since" in asked else "1h"
        return self._words("trace", f"--since={since}", self._log, "--", _word(asked, "id"))

    def _silence(self, asked: Asked) -> list[str]:
        duration = asked.get("for")
        words = [_word(asked, "name"), *([] if duration is None else [_word(asked, "for")])]
        return self._verb("alerts", "unsilence" if duration is None else "silence", self._log, "--", *words)

    def _card(self, asked: Asked) -> list[str]:
        version = ["--", _word(asked, "version")] if "version" in asked else []
        return ["models", "show", self._file, self._model(asked), self._state, "--json", *version]

    def _quality(self, asked: Asked) -> list[str]:
        window = [f"--window={_word(asked, 'window')}"] if "window" in asked else []
        return self._words("quality", self._model(asked), self._log, *window)

    def _drift(self, asked: Asked) -> list[str]:
        return self._words("drift", self._model(asked), self._state, self._lake)

    def _lateness(self, asked: Asked) -> list[str]:
        return self._words("lateness", self._stream(asked), self._state, self._lake)

    def _stream(self, asked: Asked) -> str:
        return _one_of(asked, "stream", self._streams)

    def _model(self, asked: Asked) -> str:
        return _one_of(asked, "model", self._models)


def _one_of(asked: Asked, name: str, known: Sequence[str]) -> str:
    if asked.get(name) not in known:
        raise BadRequest(f"{name} is one of {', '.join(known) or 'none: the app has no such'}.")
    return str(asked[name])


def _word(asked: Asked, name: str) -> str:
    word = asked.get(name)
    if not isinstance(word, str) or not 0 < len(word) <= LONGEST_WORD or not word.isprintable():
        raise BadRequest(f"{name} is a text of 1 to {LONGEST_WORD} characters that can be shown.")
    return word


def _places(asked: Asked) -> list[str]:
    """The letters that are meant, by name: a change never concerns what was not seen."""
    places = asked.get("places")
    if not isinstance(places, list) or not 0 < len(places) <= MOST_PLACES:
        raise BadRequest(f"places is a list of 1 to {MOST_PLACES} letters, such as payments-0@42.")
    return [f"--place={_word({'places': place}, 'places')}" for place in places]


async def _run(question: Question, words: list[str], room: asyncio.Semaphore) -> Answer:
    """What a command says, or why it does not; one that starts Spark gives way to events and requests."""
    await _require_room(room)
    try:
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "headrace", *words, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, start_new_session=True
        )
        try:
            if question.is_heavy:
                give_way(child.pid)
            async with asyncio.timeout(question.limit_s):
                said, complaint = await child.communicate()
        except TimeoutError:
            raise Unavailable(
                f"It was not found within {question.limit_s:g} s. Ask the command itself: headrace {words[0]}."
            ) from None
        finally:
            await _end(child)
    finally:
        room.release()
    return _answer(child.returncode, said, complaint)


async def _require_room(room: asyncio.Semaphore) -> None:
    try:
        async with asyncio.timeout(WAIT_SECONDS):
            await room.acquire()
    except TimeoutError:
        raise Unavailable(f"{AT_ONCE} others are being looked up, and take long. Ask again later.") from None


async def _end(child: Process) -> None:
    """Nothing asked outlives whoever asked."""
    if child.returncode is None:
        child.kill()
        await child.wait()


def _answer(code: int | None, said: bytes, complaint: bytes) -> Answer:
    if code != 0:
        why = complaint.decode(errors="replace").strip().splitlines()
        raise BadRequest(why[-1].removeprefix("Error: ") if why else "The command said nothing.")
    if len(said) > MOST_BYTES:
        raise TooLarge("There is more than a page can show. Ask the command itself.")
    return Answer(200, said, headers=NOT_KEPT)
