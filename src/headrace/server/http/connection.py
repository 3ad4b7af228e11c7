"""One client connection: HTTP/1.1 parsed by httptools, responses in the order of requests, limits in both directions.

bytes ──▶ parser ──▶ a whole request ──▶ handler starts inline ──────▶ response, in the same turn of the event loop
                         │                    └ it has to wait: a task ──▶ response, when it is ready
                         └ another request is running, or was just answered: this one waits, and reading pauses

A streamed response comes in chunks, and its connection serves no other request. When a client disconnects, the work
for its request is cancelled, and all references are dropped.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Coroutine
from http import HTTPStatus
from time import perf_counter
from typing import Any

import httptools

from headrace.server.http.admission_control import RETRY_AFTER_SECONDS, RequestArrival
from headrace.server.http.connection_registry import ConnectionRegistry
from headrace.server.http.eager_coroutine import resume_coroutine
from headrace.server.http.request_head import find_head_error, split_target
from headrace.server.http.request_parser import RequestParser
from headrace.server.http.response_bytes import encode_response
from headrace.server.http.responses import BadRequest, BodyStream, Header, Response
from headrace.server.http.routing import MAX_BODY_BYTES, PendingRequest, Request, body_too_large_error, timeout_error
from headrace.server.http.transfer_rate import TransferRate

MAX_HEAD_BYTES, LINGER_SECONDS = 1 << 16, 2.0
CONTINUE_RESPONSE = b"HTTP/1.1 100 Continue\r\n\r\n"
TOO_MANY_REQUESTS = HTTPStatus.TOO_MANY_REQUESTS.value
LOGGER = logging.getLogger("headrace.serve")

ResponseCoroutine = Coroutine[Any, Any, Response]


class HttpConnection(asyncio.Protocol):
    """Reads requests and writes responses."""

    _transport: asyncio.Transport
    url: bytes
    headers: list[Header]
    _body_parts: list[bytes]

    def __init__(self, registry: ConnectionRegistry) -> None:
        self._registry, self._router, self._admission_queue = registry, registry.router, registry.router.admission_queue
        self._loop = asyncio.get_running_loop()
        self._parser: RequestParser | None = RequestParser(self)
        self._pending_requests: deque[PendingRequest] = deque()
        self._response_task: asyncio.Task[None] | None = None
        self._connection_rejection: Response | None = None
        self._head_rejection: Response | None = None
        self._final_rejection: Response | None = None
        self._is_responding = self._has_just_responded = self._is_writing_paused = self._is_throttled = False
        self._is_closing = self._is_discarding_body = self._has_checked_head = self._has_protocol_error = False
        self._is_receiving_request, self._owes_continue, self._is_in_head = False, False, True
        self._unparsed_bytes, self._body_bytes, self._unanswered_count = 0, 0, 0
        self._has_timed_out, self._response_due_at = False, 0.0
        self._transfer: TransferRate | None = None
        self.busy_since: float | None = self._loop.time()
        self.idle_since = 0.0
        self._client_address = ""

    # Callbacks of the event loop.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # a stream's
        self._transport = transport
        peer = transport.get_extra_info("peername")
        self._client_address = str(peer[0]) if peer else ""
        self._connection_rejection = self._registry.register(self, self._client_address)

    def data_received(self, data: bytes) -> None:
        if self._has_protocol_error:
            return
        if self.busy_since is None:
            self.busy_since = self._loop.time()
        if self._admission_queue.loop_turn_started_at is None:
            self._admission_queue.begin_loop_turn()
            self._loop.call_soon(self._admission_queue.end_loop_turn)
        self._has_just_responded = False
        self._unparsed_bytes += len(data)
        self._parse(data)
        if not self._is_in_head:
            self._check_head()
        if self._unparsed_bytes > MAX_HEAD_BYTES:
            self._reject_malformed("The headers are too long." if self._is_in_head else "The trailers are too long.")
        if self._pending_requests:
            self._pause_reading()
            self._loop.call_soon(self._process_next)

    def pause_writing(self) -> None:
        """Stop reading while the client does not read its responses."""
        self._is_writing_paused = True
        self.busy_since = self.busy_since or self._loop.time()
        self._pause_reading()

    def resume_writing(self) -> None:
        self._is_writing_paused = False
        self._update_idle_state()
        self._process_next()

    def connection_lost(self, _cause: Exception | None) -> None:
        self._registry.unregister(self)
        self._admission_queue.dequeue(self._unanswered_count)
        self._unanswered_count = 0
        if self._response_task is not None:
            self._response_task.cancel()
        # The parser and this connection reference each other: both would stay in memory until garbage collection.
        self._parser, self._response_task = None, None
        self._pending_requests.clear()
        self.url, self.headers, self._body_parts = b"", [], []

    # Callbacks of the parser.

    def on_message_begin(self) -> None:
        self.url, self.headers, self._body_parts = b"", [], []
        self._is_receiving_request, self._owes_continue, self._head_rejection = True, False, None
        self._body_bytes, self._is_discarding_body, self._has_checked_head = 0, False, False

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._is_in_head:  # trailers are ignored
            self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        self._head_rejection = None if self._parser is None else find_head_error(self._parser.version, self.headers)

    def on_body(self, body: bytes) -> None:
        self._unparsed_bytes = 0
        if not self._is_discarding_body:
            self._body_parts.append(body)
            self._body_bytes += len(body)
            if self._body_bytes > MAX_BODY_BYTES:
                self._discard_body(body_too_large_error().response)

    def on_message_complete(self) -> None:
        self._is_in_head, self._unparsed_bytes = True, 0
        if self._parser is None or self._parser.offers_upgrade:
            return
        self._is_receiving_request = False
        if not self._is_discarding_body:
            self._accept_request(self._head_rejection or self._connection_rejection)

    # From bytes to a request.

    def _parse(self, data: bytes) -> None:
        try:
            if self._parser is not None and self._parser.feed(data):
                self._is_closing = True
        except httptools.HttpParserCallbackError:
            LOGGER.exception("Connection failed")
            self._transport.abort()
        except httptools.HttpParserError:
            self._reject_malformed("Invalid HTTP request received.")

    def _check_head(self) -> None:
        """Check a head before its body is complete: reject a request that is not allowed or too large, or send 100."""
        if self._is_discarding_body or self._has_checked_head or self._is_closing:
            return
        self._has_checked_head = True
        headers_by_name = {name.lower(): value for name, value in self.headers}
        content_length = int(headers_by_name.get(b"content-length", b"0"))
        rejection = (
            self._head_rejection
            or self._connection_rejection
            or self._router.find_early_error(self._build_request(RequestArrival(perf_counter(), 0)))
        )
        if rejection is not None:
            self._discard_body(rejection)
        elif content_length > MAX_BODY_BYTES:
            self._discard_body(body_too_large_error(content_length).response)
        elif headers_by_name.get(b"expect", b"").lower() == b"100-continue":
            self._owes_continue = True
            if not self._unanswered_count:
                self._send_owed_continue()

    def _send_owed_continue(self) -> None:
        """Send 100 Continue to a client that waits for it, once all requests before have been answered."""
        if self._owes_continue:
            self._owes_continue = False
            self._transport.write(CONTINUE_RESPONSE)

    def _discard_body(self, rejection: Response) -> None:
        """Reject a request before its body is complete, and ignore the rest of the body."""
        self._is_discarding_body, self._body_parts = True, []
        self._accept_request(rejection)

    def _accept_request(self, rejection: Response | None) -> None:
        """Start a request, or queue it behind others."""
        if self._is_closing:
            return
        parser = self._parser
        keeps_alive = (
            self._head_rejection is None
            and self._connection_rejection is None
            and parser is not None
            and parser.keeps_alive
        )
        self._is_closing = not keeps_alive
        self._unanswered_count += 1
        pending_request = PendingRequest(self._build_request(self._admission_queue.enqueue()), keeps_alive, rejection)
        if self._is_responding or self._pending_requests or self._has_just_responded or self._is_writing_paused:
            self._pending_requests.append(pending_request)
        else:
            self._start_request(pending_request)

    def _build_request(self, arrival: RequestArrival) -> Request:
        path, query = split_target(self.url)
        return Request(
            "" if self._parser is None else self._parser.method.decode(),
            path,
            query,
            self.headers,
            self._body_parts[0] if len(self._body_parts) == 1 else b"".join(self._body_parts),
            arrival,
            self._client_address,
        )

    def _reject_malformed(self, reason: str) -> None:
        """Reject bytes that cannot be parsed, after the responses to earlier requests; then the connection closes."""
        has_failed_before, self._has_protocol_error = self._has_protocol_error, True
        if self._is_discarding_body:
            self.close()
        elif not (has_failed_before or self._is_closing):
            self._is_closing = True
            self._final_rejection = BadRequest(f"{reason} Send HTTP/1.1.").response
            if not (self._is_responding or self._pending_requests):
                self._reject_and_close(self._final_rejection)

    def _reject_and_close(self, rejection: Response) -> None:
        self._final_rejection = None
        self._write_response(rejection, keep_alive=False)
        self._close_after_linger()

    def _close_after_linger(self) -> None:
        """Close once the client had time to read the response: with unread bytes, a close would be a reset."""
        if not self._transport.can_write_eof():
            self._transport.close()
            return
        self._transport.write_eof()
        self._transport.resume_reading()
        self._loop.call_later(LINGER_SECONDS, self._transport.abort)

    # From a request to its response.

    def _start_request(self, pending_request: PendingRequest) -> None:
        self._is_responding = True
        if pending_request.rejection is not None:
            self._router.record_response(pending_request.request, pending_request.rejection)
            self._respond(pending_request, pending_request.rejection)
            return
        response_coroutine = self._router.handle(pending_request.request)
        if pending_request.request.path in self._router.inline_paths:
            try:
                awaited_future = response_coroutine.send(None)
            except StopIteration as stop:
                self._respond(pending_request, stop.value)
                return
            response_coroutine = resume_coroutine(response_coroutine, awaited_future)
        self._has_timed_out, self._response_due_at = (
            False,
            self._loop.time() + self._router.timeout_s(pending_request.request.path),
        )
        self._response_task = self._loop.create_task(self._respond_when_ready(pending_request, response_coroutine))

    async def _respond_when_ready(self, pending_request: PendingRequest, response_coroutine: ResponseCoroutine) -> None:
        try:
            response = await response_coroutine
        except asyncio.CancelledError:
            if not self._has_timed_out:
                raise
            response = timeout_error(self._router.timeout_s(pending_request.request.path)).response
            self._router.record_response(pending_request.request, response)
        if response.body_stream is None or pending_request.request.method == "HEAD":
            self._respond(pending_request, response)
            self._process_next()
        elif not self._transport.is_closing():
            self._stream_response(response, response.body_stream)

    def _stream_response(self, response: Response, body_stream: BodyStream) -> None:
        """Write chunks until the client disconnects or the server stops; no further request is read."""
        self._mark_answered()
        self._write_response(response, keep_alive=False)
        self._update_idle_state()
        body_stream(self._send_chunk)

    def _send_chunk(self, chunk: bytes | None) -> bool:
        """Send one chunk of a stream, or close it; whether the client is still connected.

        A slow client misses chunks; one that reads nothing for too long is disconnected like any other.
        """
        if chunk is None:
            self._transport.close()
        if self._transport.is_closing():
            return False
        if chunk is not None and not self._is_writing_paused:
            self._transport.write(chunk)
            self._update_idle_state()
        return True

    def _respond(self, pending_request: PendingRequest, response: Response) -> None:
        self._is_responding, self._has_just_responded = False, True
        if self._transport.is_closing():
            return
        self._mark_answered()
        is_last = not pending_request.keeps_alive or (
            self._is_closing and not self._pending_requests and self._final_rejection is None
        )
        self._write_response(response, not is_last, pending_request.request.method == "HEAD")
        if is_last and pending_request.rejection in (None, self._connection_rejection):
            self._transport.close()
        elif is_last:
            self._close_after_linger()
        elif response.status == TOO_MANY_REQUESTS and self._router.limits_per_client:
            self._throttle()
        self._update_idle_state()

    def _mark_answered(self) -> None:
        self._unanswered_count -= 1
        self._admission_queue.dequeue(1)

    def _write_response(self, response: Response, keep_alive: bool, without_body: bool = False) -> None:
        self._transport.write(encode_response(response, self._registry.date_header, keep_alive, without_body))

    # The next request.

    def _process_next(self) -> None:
        """Start the next pending request, or resume reading if there is none."""
        if self._is_responding or self._is_writing_paused or self._is_throttled or self._transport.is_closing():
            return
        if self._pending_requests:
            self._start_request(self._pending_requests.popleft())
            self._loop.call_soon(self._process_next)
        elif self._final_rejection is not None:
            self._reject_and_close(self._final_rejection)
        elif not self._is_closing:
            self._send_owed_continue()
            self._transport.resume_reading()

    def _pause_reading(self) -> None:
        if not self._transport.is_closing():
            self._transport.pause_reading()

    def _throttle(self) -> None:
        """Pause reading for RETRY_AFTER_SECONDS: further bytes wait in the client's socket."""
        self._is_throttled = True
        self._pause_reading()
        self._loop.call_later(RETRY_AFTER_SECONDS, self._end_throttling)

    def _end_throttling(self) -> None:
        self._is_throttled = False
        self._process_next()

    def _update_idle_state(self) -> None:
        """Mark the connection as idle if no request is open and the client has read everything."""
        self.idle_since = self._loop.time()
        self.busy_since = (
            self.idle_since if self._unanswered_count or self._is_writing_paused or self._is_receiving_request else None
        )

    # Called by the server.

    def is_too_slow(self, now: float, stall_timeout_s: float) -> bool:
        """Whether the client sends its request, or reads its response, too slowly; handler time does not count."""
        if self.busy_since is None or (self._is_responding and not self._is_writing_paused):
            return False
        position = -self._transport.get_write_buffer_size() if self._is_writing_paused else self._body_bytes
        if self._transfer is None or self._transfer.started_at != self.busy_since:
            self._transfer = TransferRate(self.busy_since, position if self._is_writing_paused else 0)
        return self._transfer.is_too_slow(now, position, stall_timeout_s)

    def is_idle_since(self, moment: float) -> bool:
        """Whether the connection has been idle since before `moment`."""
        return self.busy_since is None and self.idle_since < moment

    def cancel_overdue_response(self, now: float) -> None:
        """Cancel the handler of a request that has exceeded its timeout; the client gets an error."""
        if (
            self._is_responding
            and self._response_task is not None
            and now > self._response_due_at
            and not self._has_timed_out
        ):
            self._has_timed_out = True
            self._response_task.cancel()

    def close(self) -> None:
        """Accept no more requests; those accepted before are answered."""
        self._is_closing = True
        if not self._unanswered_count:
            self._transport.close()

    def abort(self) -> None:
        """Close the connection at once."""
        self._transport.abort()
