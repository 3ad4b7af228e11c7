"""A webhook: lists of rows as JSON, each with its place; a request that is repeated has the key it had before."""

import hashlib
import http.client
from collections.abc import Sequence
from typing import ClassVar

import orjson

from headrace.declare.sink import Sink
from headrace.declare.targets import Webhook
from headrace.sink.rows import Row
from headrace.sink.secrets import secret_of
from headrace.sink.texts import jsonable
from headrace.sink.writer import Away, Moves, Rejected, SinkPlace, Writer
from headrace.tiles.event_json import JSON
from headrace.watch.addresses import BadWebhook, RefusedAddress
from headrace.watch.poster import Poster, Refused

ATTEMPT_SECONDS = 10.0
OF_ROWS = frozenset({400, 413, 422})  # what a receiver says of rows; the rest is about the address, or who asks


class WebhookWriter(Writer):
    """Posts to one address."""

    most_rows: ClassVar[int] = 500

    def __init__(self, sink: Sink, place: SinkPlace) -> None:
        super().__init__(sink, place)
        self._target: Webhook = sink.to  # type: ignore[assignment]  # chosen by it

    def open(self) -> None:
        try:
            self._poster().reach()
        except (OSError, RefusedAddress) as failure:
            raise self._away(failure) from failure

    def write(self, rows: Sequence[Row], moves: Moves | None = None) -> None:  # noqa: ARG002  # keeps no places
        if not rows:
            return
        body = {"sink": self.sink.name, "rows": [{"place": row.place, **jsonable(row.values)} for row in rows]}
        try:
            self._poster().post(orjson.dumps(body, option=JSON), {"idempotency-key": key_of(self.sink, rows)})
        except Refused as failure:
            if failure.status in OF_ROWS:
                raise Rejected(f"rejected: {failure}") from failure
            raise self._away(failure) from failure
        except (OSError, http.client.HTTPException, RefusedAddress) as failure:
            raise self._away(failure) from failure

    def _poster(self) -> Poster:
        try:
            url = secret_of(self._target.url, self.sink.name)
            return Poster(url, self.place.allowed, self.place.ca, ATTEMPT_SECONDS)
        except BadWebhook as wrong:
            raise Away(f"{self.sink.name}: {wrong}") from wrong

    def _away(self, failure: Exception) -> Away:
        poster = self._poster()
        return Away(f"{self.sink.name}: the webhook at {poster.host} does not take rows: {poster.why(failure)}.")


def key_of(sink: Sink, rows: Sequence[Row]) -> str:
    """The same for the same rows."""
    return hashlib.sha256(" ".join([sink.slug, *(row.place for row in rows)]).encode()).hexdigest()[:32]
