"""The admin routes of the dashboard: each runs a command in its own process, and returns the command's JSON.

POST /ask/trace {"id": "p-17"}               ──▶  headrace trace APP --json --since=1h -- p-17
POST /ask/replay {"stream": …, "places": …}  ──▶  headrace dead replay APP payments --json --place=payments-0@42

So the page shows a command's output, and a command that scans a whole topic does not block the server's process.
Each starts a process, so each is a POST: a page of another site can make a browser send any GET request.
"""

import asyncio
import sys
import tempfile
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from headrace.declare.app import App
from headrace.embedded_servers.process_priority import lower_priority
from headrace.runtime.part_runner import broker_address
from headrace.runtime.settings import Settings
from headrace.server.auth.scopes import Scope
from headrace.server.features.entity_keys import short_json
from headrace.server.http.openapi_operations import JsonSchema, OpenApiOperation, list_schema
from headrace.server.http.responses import (
    BadRequest,
    PayloadTooLarge,
    Response,
    ServiceUnavailable,
    UnsupportedMediaType,
    encode_json,
    parse_json,
)
from headrace.server.http.routing import Handler, Request, Route, post_route
from headrace.server.metrics.live_metrics import NO_STORE_HEADERS

MAX_CONCURRENT_COMMANDS, QUEUE_SECONDS = 2, 15.0
LIMIT_SECONDS, HEAVY_LIMIT_SECONDS, GRACE_SECONDS = 60.0, 240.0, 10.0
MAX_TEXT_LENGTH = 500
MAX_PLACES = 500
MAX_OUTPUT_BYTES = 8 << 20
SHOWN_LETTERS = 50
BODY_EXAMPLE = 'an object: {"stream": "payments", "places": ["payments-0@42"]}'
TEXT_SCHEMA: JsonSchema = {"type": "string", "minLength": 1, "maxLength": MAX_TEXT_LENGTH}

RequestBody = Mapping[str, Any]


class AdminCommand(NamedTuple):
    """A command of the dashboard: its path, the builder of its arguments, the fields of its request, whether it writes
    and whether it starts Spark.
    """

    path: str
    build_arguments: Callable[[RequestBody], list[str]]
    field_names: tuple[str, ...] = ()
    is_write: bool = False
    is_heavy: bool = False

    @property
    def limit_s(self) -> float:
        """The time limit of its command."""
        return HEAVY_LIMIT_SECONDS if self.is_heavy else LIMIT_SECONDS

    @property
    def operation(self) -> OpenApiOperation:
        """The OpenAPI operation; the response is the command's output with --json."""
        summary = f"What `headrace {self.path.rpartition('/')[2]}` says to the dashboard"
        properties = {name: FIELD_SCHEMAS.get(name, TEXT_SCHEMA) for name in self.field_names}
        return OpenApiOperation(summary, request_body={"type": "object", "properties": properties})


FIELD_SCHEMAS: Mapping[str, JsonSchema] = {
    "places": {**list_schema(TEXT_SCHEMA), "minItems": 1, "maxItems": MAX_PLACES},
    "every": {"type": "boolean"},
    "for": {"anyOf": [TEXT_SCHEMA, {"type": "null"}]},
    "mended": {"type": ["string", "object"]},
}


def admin_routes(app_path: str, app: App, settings: Settings) -> list[Route]:
    """The admin routes of an app that was started as `app_path`."""
    slots = asyncio.Semaphore(MAX_CONCURRENT_COMMANDS)
    return [_command_route(command, slots) for command in AdminCommands(app_path, app, settings).build_commands()]


def _command_route(command: AdminCommand, slots: asyncio.Semaphore) -> Route:
    route = post_route(
        command.path, _command_handler(command, slots), scope=Scope.WRITE if command.is_write else Scope.READ
    )
    limit_s = QUEUE_SECONDS + command.limit_s + GRACE_SECONDS
    return replace(route, operation=command.operation, timeout_s=limit_s)


def _command_handler(command: AdminCommand, slots: asyncio.Semaphore) -> Handler:
    async def handle(request: Request) -> Response:
        body = _parse_body(request)
        if "mended" not in command.field_names or "mended" not in body:
            return await _run_command(command, command.build_arguments(body), slots)
        with tempfile.TemporaryDirectory() as folder:  # every user of the machine can read command lines
            letters_file = Path(folder) / "letters.jsonl"
            letters_file.write_bytes(_encode_mended_letter(body))
            return await _run_command(command, [*command.build_arguments(body), f"--from={letters_file}"], slots)

    return handle


def _encode_mended_letter(body: RequestBody) -> bytes:
    try:
        return encode_json({"place": _parse_text(body, "place"), "value": body["mended"]})
    except (RecursionError, TypeError, ValueError):
        raise BadRequest("mended is nested too deeply. Write the record as it should have come.") from None


def _parse_body(request: Request) -> dict[str, Any]:
    """The JSON object of a request; requires a content type that a form of another site cannot send."""
    if (request.header(b"content-type") or b"").split(b";")[0].strip() != b"application/json":
        raise UnsupportedMediaType("Send JSON, and say so: content-type: application/json.")
    body = parse_json(request.body, BODY_EXAMPLE)
    if not isinstance(body, dict):
        raise BadRequest(f"The body is {short_json(body)}. Write {BODY_EXAMPLE}.")
    return body


class AdminCommands:
    """The commands of an app's dashboard; names are checked against the app, other input is never an option."""

    def __init__(self, app_path: str, app: App, settings: Settings) -> None:
        self._app_path = app_path
        self._stream_names, self._model_names = (
            [declaration.name for declaration in app.streams],
            [one.name for one in app.models],
        )
        self._broker_option = f"--broker={broker_address(settings)}"
        self._state_option = f"--state={settings.state}"
        self._lake_option = f"--lake={settings.lake or 'off'}"

    def build_commands(self) -> list[AdminCommand]:
        return [
            AdminCommand("/ask/dead", lambda _: self._verb_arguments("dead", "ls", self._broker_option)),
            AdminCommand("/ask/letters", self._letters_arguments, ("stream", "reason", "every")),
            AdminCommand("/ask/replay", self._replay_arguments, ("stream", "places", "place", "mended"), is_write=True),
            AdminCommand("/ask/discard", self._discard_arguments, ("stream", "places"), is_write=True),
            AdminCommand("/ask/trace", self._trace_arguments, ("id", "since")),
            AdminCommand("/ask/alerts", lambda _: self._verb_arguments("alerts", "ls", self._broker_option)),
            AdminCommand("/ask/silence", self._silence_arguments, ("name", "for"), is_write=True),
            AdminCommand("/ask/models", lambda _: ["models", "ls", self._app_path, self._state_option, "--json"]),
            AdminCommand("/ask/card", self._card_arguments, ("model", "version")),
            AdminCommand("/ask/quality", self._quality_arguments, ("model", "window")),
            AdminCommand("/ask/drift", self._drift_arguments, ("model",)),
            AdminCommand("/ask/lateness", self._lateness_arguments, ("stream",), is_heavy=True),
        ]

    def _app_arguments(self, command: str, *arguments: str) -> list[str]:
        return [command, self._app_path, "--json", *arguments]

    def _verb_arguments(self, noun: str, verb: str, *arguments: str) -> list[str]:
        return [noun, verb, self._app_path, "--json", *arguments]

    def _letters_arguments(self, body: RequestBody) -> list[str]:
        reason = [f"--reason={_parse_text(body, 'reason')}"] if "reason" in body else []
        every = ["--every"] if body.get("every") else []
        return self._verb_arguments(
            "dead", "show", self._stream_name(body), f"--limit={SHOWN_LETTERS}", self._broker_option, *reason, *every
        )

    def _replay_arguments(self, body: RequestBody) -> list[str]:
        place_options = [] if "mended" in body else _place_options(body)
        return self._verb_arguments("dead", "replay", self._stream_name(body), self._broker_option, *place_options)

    def _discard_arguments(self, body: RequestBody) -> list[str]:
        return self._verb_arguments(
            "dead", "discard", self._stream_name(body), "--yes", self._broker_option, *_place_options(body)
        )

    def _trace_arguments(self, body: RequestBody) -> list[str]:
        since = _parse_text(body, "since") if "since" in body else "1h"
        return self._app_arguments("trace", f"--since={since}", self._broker_option, "--", _parse_text(body, "id"))

    def _silence_arguments(self, body: RequestBody) -> list[str]:
        duration = body.get("for")
        arguments = [_parse_text(body, "name"), *([] if duration is None else [_parse_text(body, "for")])]
        return self._verb_arguments(
            "alerts", "unsilence" if duration is None else "silence", self._broker_option, "--", *arguments
        )

    def _card_arguments(self, body: RequestBody) -> list[str]:
        version = ["--", _parse_text(body, "version")] if "version" in body else []
        return ["models", "show", self._app_path, self._model_name(body), self._state_option, "--json", *version]

    def _quality_arguments(self, body: RequestBody) -> list[str]:
        window = [f"--window={_parse_text(body, 'window')}"] if "window" in body else []
        return self._app_arguments("quality", self._model_name(body), self._broker_option, *window)

    def _drift_arguments(self, body: RequestBody) -> list[str]:
        return self._app_arguments("drift", self._model_name(body), self._state_option, self._lake_option)

    def _lateness_arguments(self, body: RequestBody) -> list[str]:
        return self._app_arguments("lateness", self._stream_name(body), self._state_option, self._lake_option)

    def _stream_name(self, body: RequestBody) -> str:
        return _parse_choice(body, "stream", self._stream_names)

    def _model_name(self, body: RequestBody) -> str:
        return _parse_choice(body, "model", self._model_names)


def _parse_choice(body: RequestBody, field: str, choices: Sequence[str]) -> str:
    if body.get(field) not in choices:
        raise BadRequest(f"{field} is one of {', '.join(choices) or 'none: the app has no such'}.")
    return str(body[field])


def _parse_text(body: RequestBody, field: str) -> str:
    text = body.get(field)
    if not isinstance(text, str) or not 0 < len(text) <= MAX_TEXT_LENGTH or not text.isprintable():
        raise BadRequest(f"{field} is a text of 1 to {MAX_TEXT_LENGTH} characters that can be shown.")
    return text


def _place_options(body: RequestBody) -> list[str]:
    """The options that name each dead letter: a change affects only letters that the page has shown."""
    places = body.get("places")
    if not isinstance(places, list) or not 0 < len(places) <= MAX_PLACES:
        raise BadRequest(f"places is a list of 1 to {MAX_PLACES} letters, such as payments-0@42.")
    return [f"--place={_parse_text({'places': place}, 'places')}" for place in places]


async def _run_command(command: AdminCommand, arguments: list[str], slots: asyncio.Semaphore) -> Response:
    """Run a command and return its output or its error; a command that starts Spark gets a lower priority."""
    await _acquire_slot(slots)
    try:
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "headrace",
            *arguments,
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
            start_new_session=True,
        )
        try:
            if command.is_heavy:
                lower_priority(child.pid)
            async with asyncio.timeout(command.limit_s):
                stdout, stderr = await child.communicate()
        except TimeoutError:
            raise ServiceUnavailable(
                f"The command did not finish within {command.limit_s:g} s. Run it yourself: headrace {arguments[0]}."
            ) from None
        finally:
            await _kill(child)
    finally:
        slots.release()
    return _to_answer(child.returncode, stdout, stderr)


async def _acquire_slot(slots: asyncio.Semaphore) -> None:
    try:
        async with asyncio.timeout(QUEUE_SECONDS):
            await slots.acquire()
    except TimeoutError:
        raise ServiceUnavailable(f"{MAX_CONCURRENT_COMMANDS} other commands are running. Retry later.") from None


async def _kill(child: Process) -> None:
    """Kill a command whose request has ended."""
    if child.returncode is None:
        child.kill()
        await child.wait()


def _to_answer(exit_code: int | None, stdout: bytes, stderr: bytes) -> Response:
    if exit_code != 0:
        error_lines = stderr.decode(errors="replace").strip().splitlines()
        raise BadRequest(error_lines[-1].removeprefix("Error: ") if error_lines else "The command failed silently.")
    if len(stdout) > MAX_OUTPUT_BYTES:
        raise PayloadTooLarge("The output is too large for a page. Run the command yourself.")
    return Response(200, stdout, headers=NO_STORE_HEADERS)
