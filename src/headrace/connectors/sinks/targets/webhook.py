"""A webhook: lists of rows as JSON, each with its source offset; a retried request has the same idempotency key."""

import hashlib
import http.client
from collections.abc import Sequence
from typing import ClassVar

import orjson

from headrace.connectors.sinks.connection_secrets import resolve_address
from headrace.connectors.sinks.sink_rows import SinkRow
from headrace.connectors.sinks.text_values import to_json_values
from headrace.connectors.sinks.writer import OffsetMoves, RowsRejected, SinkConfig, SinkWriter, TargetUnavailable
from headrace.declare.sinks.sink import Sink
from headrace.declare.sinks.targets import Webhook
from headrace.telemetry.webhooks.allowed_addresses import AddressRefused, BadWebhook
from headrace.telemetry.webhooks.webhook_client import WebhookClient, WebhookRefused
from headrace.tiles.events.event_json import JSON_OPTIONS

ATTEMPT_TIMEOUT_SECONDS = 10.0
ROW_ERROR_STATUSES = frozenset({400, 413, 422})  # errors about rows; others are about the address or the sender


class WebhookWriter(SinkWriter):
    """Posts to one address."""

    max_rows: ClassVar[int] = 500

    def __init__(self, sink: Sink, config: SinkConfig) -> None:
        super().__init__(sink, config)
        self._target: Webhook = sink.to  # type: ignore[assignment]  # its class selects this writer

    def open(self) -> None:
        try:
            self._create_client().check_reachable()
        except (OSError, AddressRefused) as failure:
            raise self._to_unavailable(failure) from failure

    def write(self, rows: Sequence[SinkRow], moves: OffsetMoves | None = None) -> None:  # noqa: ARG002  # no offsets
        if not rows:
            return
        body = {"sink": self.sink.name, "rows": [{"place": row.location, **to_json_values(row.values)} for row in rows]}
        try:
            self._create_client().post(
                orjson.dumps(body, option=JSON_OPTIONS), {"idempotency-key": idempotency_key(self.sink, rows)}
            )
        except WebhookRefused as failure:
            if failure.status in ROW_ERROR_STATUSES:
                raise RowsRejected(f"rejected: {failure}") from failure
            raise self._to_unavailable(failure) from failure
        except (OSError, http.client.HTTPException, AddressRefused) as failure:
            raise self._to_unavailable(failure) from failure

    def _create_client(self) -> WebhookClient:
        try:
            url = resolve_address(self._target.url, self.sink.name)
            return WebhookClient(url, self.config.allowed_networks, self.config.ca_file, ATTEMPT_TIMEOUT_SECONDS)
        except BadWebhook as error:
            raise TargetUnavailable(f"{self.sink.name}: {error}") from error

    def _to_unavailable(self, failure: Exception) -> TargetUnavailable:
        client = self._create_client()
        return TargetUnavailable(
            f"{self.sink.name}: the webhook at {client.host} does not take rows: {client.describe_failure(failure)}."
        )


def idempotency_key(sink: Sink, rows: Sequence[SinkRow]) -> str:
    """A key that is the same for the same rows."""
    return hashlib.sha256(" ".join([sink.slug, *(row.location for row in rows)]).encode()).hexdigest()[:32]
