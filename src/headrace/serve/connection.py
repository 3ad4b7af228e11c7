"""One connection of a client: HTTP/1.1 as httptools parses it, answers in the order of requests, bounds on both sides.

bytes ──▶ parser ──▶ a whole request ──▶ begun at once ──────────────▶ answer, in the same turn of the event loop
                         │                    └ it has to wait: a task ──▶ answer, when it is there
                         └ another is at work, or was just answered: it waits its turn, and nothing more is read

An answer that flows comes in pieces, and its connection is good for nothing else. Whoever goes ends the work that was
begun for it, and leaves no memory behind.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Coroutine
from http import HTTPStatus
from time import perf_counter
from typing import Any, NamedTuple, Protocol
from urllib.parse import unquote

import httptools

from headrace.serve.answers import Answer, BadRequest, Flow, Header
from headrace.serve.http import LARGEST_BODY, Http, Request, timed_out, too_large
from headrace.serve.overload import RETRY_SECONDS, Came
from headrace.serve.request_head import repeated_header
from headrace.serve.request_parser import RequestParser
from headrace.serve.response_bytes import response_bytes
from headrace.serve.resumed_coroutine import resumed
from headrace.serve.transfer_pace import TransferPace

LARGEST_HEAD = 1 << 16
LINGER_SECONDS = 2.0
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
TOO_MANY = HTTPStatus.TOO_MANY_REQUESTS.value
LOGGER = logging.getLogger("headrace.serve")

Answering = Coroutine[Any, Any, Answer]


class Desk(Protocol):
    """What the connections of a server share; `date` is the header's text of this second."""

    http: Http
    date: bytes

    def enter(self, connection: "Connection", address: str) -> Answer | None:
        """A new connection; what it is told where there are too many."""

    def leave(self, connection: "Connection") -> None:
        """A connection has ended."""


class Asked(NamedTuple):
    """A request, whether another may follow it and, where it was refused unread, what it is told."""

    request: Request
    keeps: bool
    answer: Answer | None


class Connection(asyncio.Protocol):
    """Reads requests and writes answers."""

    _transport: asyncio.Transport
    url: bytes
    headers: list[Header]
    _pieces: list[bytes]

    def __init__(self, desk: Desk) -> None:
        self._desk, self._http, self._line = desk, desk.http, desk.http.line
        self._loop = asyncio.get_running_loop()
        self._parser: RequestParser | None = RequestParser(self)
        self._asked: deque[Asked] = deque()
        self._task: asyncio.Task[None] | None = None
        self._refusal: Answer | None = None
        self._fault: Answer | None = None
        self._is_at_work = self._has_answered = self._is_full = self._is_held = False
        self._is_ending = self._is_discarding = self._has_looked_ahead = self._is_refused = False
        self._is_receiving, self._is_in_head = False, True
        self._unparsed_bytes, self._body_bytes, self._unanswered = 0, 0, 0
        self._has_timed_out, self._due_at = False, 0.0
        self._pace: TransferPace | None = None
        self.busy_since: float | None = self._loop.time()
        self.idle_since = 0.0
        self._address = ""

    # Told by the event loop.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # a stream's
        self._transport = transport
        peer = transport.get_extra_info("peername")
        self._address = str(peer[0]) if peer else ""
        self._refusal = self._desk.enter(self, self._address)

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            return
        if self.busy_since is None:
            self.busy_since = self._loop.time()
        if self._line.turn_at is None:
            self._line.begin_turn()
            self._loop.call_soon(self._line.end_turn)
        self._has_answered = False
        self._unparsed_bytes += len(data)
        self._parse(data)
        if not self._is_in_head:
            self._look_ahead()
        if self._unparsed_bytes > LARGEST_HEAD:
            self._refuse_bytes("The headers are too long." if self._is_in_head else "The trailers are too long.")
        if self._asked:
            self._pause()
            self._loop.call_soon(self._go_on)

    def pause_writing(self) -> None:
        """The client does not take its answers: it is asked for no more until it does."""
        self._is_full = True
        self.busy_since = self.busy_since or self._loop.time()
        self._pause()

    def resume_writing(self) -> None:
        self._is_full = False
        self._rest()
        self._go_on()

    def connection_lost(self, _cause: Exception | None) -> None:
        self._desk.leave(self)
        self._line.leave(self._unanswered)
        self._unanswered = 0
        if self._task is not None:
            self._task.cancel()
        # The parser and this connection know each other: together they would stay until they are collected.
        self._parser, self._task = None, None
        self._asked.clear()
        self.url, self.headers, self._pieces = b"", [], []

    # Told by the parser.

    def on_message_begin(self) -> None:
        self.url, self.headers, self._pieces = b"", [], []
        self._is_receiving, self._fault = True, None
        self._body_bytes, self._is_discarding, self._has_looked_ahead = 0, False, False

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._is_in_head:  # what trails a body says nothing that was not to be known before it
            self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        self._fault = repeated_header(self.headers)

    def on_body(self, body: bytes) -> None:
        self._unparsed_bytes = 0
        if not self._is_discarding:
            self._pieces.append(body)
            self._body_bytes += len(body)
            if self._body_bytes > LARGEST_BODY:
                self._discard(too_large().answer)

    def on_message_complete(self) -> None:
        self._is_in_head, self._unparsed_bytes = True, 0
        if self._parser is None or self._parser.offers_upgrade:
            return
        self._is_receiving = False
        if not self._is_discarding:
            self._take(self._fault or self._refusal)

    # From bytes to a request.

    def _parse(self, data: bytes) -> None:
        try:
            if self._parser is not None and self._parser.feed(data):
                self._is_ending = True
        except httptools.HttpParserCallbackError:
            LOGGER.exception("a connection failed")
            self._transport.abort()
        except httptools.HttpParserError:
            self._refuse_bytes("Invalid HTTP request received.")

    def _look_ahead(self) -> None:
        """Of a body that is not all here: refuse one that may not come or is too large, ask for one that waits."""
        if self._is_discarding or self._has_looked_ahead:
            return
        self._has_looked_ahead = True
        named = {name.lower(): value for name, value in self.headers}
        size = int(named.get(b"content-length", b"0"))
        refusal = self._fault or self._refusal or self._http.refusal(self._request(Came(perf_counter(), 0)))
        if refusal is not None:
            self._discard(refusal)
        elif size > LARGEST_BODY:
            self._discard(too_large(size).answer)
        elif named.get(b"expect", b"").lower() == b"100-continue" and not self._unanswered:
            self._transport.write(CONTINUE)

    def _discard(self, answer: Answer) -> None:
        """Answer what is not all here yet, and pass over what comes of it."""
        self._is_discarding, self._pieces = True, []
        self._take(answer)

    def _take(self, answer: Answer | None) -> None:
        """Begin with a request, unless others have to come first."""
        if self._is_ending:
            return
        parser = self._parser
        keeps = self._fault is None and self._refusal is None and parser is not None and parser.keeps
        self._is_ending = not keeps
        self._unanswered += 1
        asked = Asked(self._request(self._line.enter()), keeps, answer)
        if self._is_at_work or self._asked or self._has_answered or self._is_full:
            self._asked.append(asked)
        else:
            self._begin(asked)

    def _request(self, came: Came) -> Request:
        path, _, query = self._path_and_query().partition(b"?")
        text = path.decode(errors="replace")
        return Request(
            "" if self._parser is None else self._parser.method.decode(),
            unquote(text) if "%" in text else text,
            query,
            self.headers,
            self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces),
            came,
            self._address,
        )

    def _path_and_query(self) -> bytes:
        """What is asked for; a proxy writes the whole URL."""
        if self.url.startswith(b"/"):
            return self.url
        _, _, rest = self.url.partition(b"://")
        return b"/" + rest.partition(b"/")[2]

    def _refuse_bytes(self, why: str) -> None:
        """What cannot be parsed at all is refused in JSON, as everything else; what was refused already ends."""
        if self._transport.is_closing() or self._is_refused:
            return
        self._is_refused = self._is_ending = True
        if self._is_discarding:
            self.end()
            return
        self._write(BadRequest(f"{why} Send HTTP/1.1.").answer, keeps=False)
        self._close_gently()

    def _close_gently(self) -> None:
        """Close once the client had time to take the answer: with bytes unread, a close would be a reset."""
        if not self._transport.can_write_eof():
            self._transport.close()
            return
        self._transport.write_eof()
        self._loop.call_later(LINGER_SECONDS, self._transport.abort)

    # From a request to its answer.

    def _begin(self, asked: Asked) -> None:
        self._is_at_work = True
        if asked.answer is not None:
            self._http.count(asked.request, asked.answer)
            self._respond(asked, asked.answer)
            return
        answering = self._http.answer(asked.request)
        if asked.request.path in self._http.at_hand:
            try:
                awaited = answering.send(None)
            except StopIteration as ended:
                self._respond(asked, ended.value)
                return
            answering = resumed(answering, awaited)
        self._has_timed_out, self._due_at = False, self._loop.time() + self._http.limit_s(asked.request.path)
        self._task = self._loop.create_task(self._respond_later(asked, answering))

    async def _respond_later(self, asked: Asked, answering: Answering) -> None:
        try:
            answer = await answering
        except asyncio.CancelledError:
            if not self._has_timed_out:
                raise
            answer = timed_out(self._http.limit_s(asked.request.path)).answer
            self._http.count(asked.request, answer)
        if answer.flows is None or asked.request.method == "HEAD":
            self._respond(asked, answer)
            self._go_on()
        elif not self._transport.is_closing():
            self._flow(answer, answer.flows)

    def _flow(self, answer: Answer, flow: Flow) -> None:
        """Write what comes until the client has gone or the server ends; nothing else is read meanwhile."""
        self._answered_one()
        self._write(answer, keeps=False)
        self._rest()
        flow(self._tell)

    def _tell(self, piece: bytes | None) -> bool:
        """One piece of what flows, or its end; gives whether the client is still there.

        One that is slow misses pieces, and one that takes none for long is let go of as any other.
        """
        if piece is None:
            self._transport.close()
        if self._transport.is_closing():
            return False
        if piece is not None and not self._is_full:
            self._transport.write(piece)
            self._rest()
        return True

    def _respond(self, asked: Asked, answer: Answer) -> None:
        self._is_at_work, self._has_answered = False, True
        if self._transport.is_closing():
            return
        self._answered_one()
        is_last = not asked.keeps or (self._is_ending and not self._asked)
        self._write(answer, not is_last, asked.request.method == "HEAD")
        if is_last:
            self._transport.close()
        elif answer.status == TOO_MANY and self._http.holds_back:
            self._hold()
        self._rest()

    def _answered_one(self) -> None:
        self._unanswered -= 1
        self._line.leave(1)

    def _write(self, answer: Answer, keeps: bool, without_body: bool = False) -> None:
        self._transport.write(response_bytes(answer, self._desk.date, keeps, without_body))

    # What comes next.

    def _go_on(self) -> None:
        """Begin with who waits or, if nobody does, read on."""
        if self._is_at_work or self._is_full or self._is_held or self._transport.is_closing():
            return
        if self._asked:
            self._begin(self._asked.popleft())
            self._loop.call_soon(self._go_on)
        else:
            self._transport.resume_reading()

    def _pause(self) -> None:
        if not self._transport.is_closing():
            self._transport.pause_reading()

    def _hold(self) -> None:
        """Read nothing for a while: what the client sends meanwhile waits in its socket."""
        self._is_held = True
        self._pause()
        self._loop.call_later(RETRY_SECONDS, self._release)

    def _release(self) -> None:
        self._is_held = False
        self._go_on()

    def _rest(self) -> None:
        """Idle again, if nothing is to be done and the client has taken everything."""
        self.idle_since = self._loop.time()
        self.busy_since = self.idle_since if self._unanswered or self._is_full or self._is_receiving else None

    # Told by the server.

    def is_too_slow(self, now: float, patience_s: float) -> bool:
        """Whether the client sends its request, or takes its answer, too slowly; our own work is no fault of its."""
        if self.busy_since is None or (self._is_at_work and not self._is_full):
            return False
        position = -self._transport.get_write_buffer_size() if self._is_full else self._body_bytes
        if self._pace is None or self._pace.since != self.busy_since:
            self._pace = TransferPace(self.busy_since, position if self._is_full else 0)
        return self._pace.is_too_slow(now, position, patience_s)

    def is_idle_since(self, moment: float) -> bool:
        """Whether nothing was to be done since a moment."""
        return self.busy_since is None and self.idle_since < moment

    def end_overdue_work(self, now: float) -> None:
        """End the work of a request that has taken longer than it may; the client is told."""
        if self._is_at_work and self._task is not None and now > self._due_at and not self._has_timed_out:
            self._has_timed_out = True
            self._task.cancel()

    def end(self) -> None:
        """Take no more requests; those that were taken are answered."""
        self._is_ending = True
        if not self._unanswered:
            self._transport.close()

    def abort(self) -> None:
        """End at once."""
        self._transport.abort()
