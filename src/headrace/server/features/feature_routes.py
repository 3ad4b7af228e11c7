"""POST /features/VIEW: the feature values of some entities, now or as of a time."""

from math import isfinite
from time import monotonic
from typing import Any

from headrace.aggregates.sketches.frequent_items import key_text
from headrace.declare.features.view import View
from headrace.declare.streams.schema import Kind
from headrace.online_store.feature_lookup import LookupResult, RetentionExceededError
from headrace.online_store.memory.memory_store_reader import OnlineStoreReader
from headrace.server.features.entity_keys import KeyReader
from headrace.server.features.feature_request import parse_feature_request
from headrace.server.features.served_log import ServedLogWriter
from headrace.server.http.responses import BadRequest, Response, encode_json, non_finite_to_text
from headrace.server.http.routing import Request
from headrace.server.timestamps import TimestampFormatter
from headrace.tiles.events.on_demand_features import OnDemandEvaluator
from headrace.tiles.finish import to_datetime
from headrace.tiles.tile import Entity


class FeaturesHandler:
    """Serves one view."""

    def __init__(self, view: View, online: OnlineStoreReader, served_log: ServedLogWriter | None = None) -> None:
        kinds = {column.name: column.kind for column in view.expression_inputs} | {
            derived.name: derived.kind for derived in view.on_demand_features
        }
        self._view, self._online, self._served_log = view, online, served_log
        self._feature_names = view.names
        self._key_reader = KeyReader(view)
        self._deriver = OnDemandEvaluator(view)
        self._timestamp_formatter = TimestampFormatter()
        self._float_indexes = [index for index, name in enumerate(view.names) if kinds.get(name) is Kind.DOUBLE]
        self._map_indexes = [index for index, feature in enumerate(view.features) if feature.aggregate.is_map_valued]

    async def __call__(self, request: Request) -> Response:
        """The response to one request."""
        feature_request = parse_feature_request(request.body)
        entities = self._key_reader.parse_entities(feature_request.keys)
        try:
            reads = await self._online.read(self._view.name, entities, feature_request.at_us)
        except RetentionExceededError as problem:
            raise BadRequest(str(problem)) from problem
        request_values = (
            self._key_reader.parse_request_values(feature_request.request_values) if self._view.request_columns else {}
        )
        rows = [
            self._encode_row(entity, read, feature_request.at_us, request_values)
            for entity, read in zip(entities, reads, strict=True)
        ]
        if self._served_log is not None and rows and monotonic() >= self._served_log.next_sample_at:
            self._served_log.write_sample(entities[0], reads[0], rows[0], feature_request.at_us, request_values)
        return Response(
            200,
            b'{"as_of":"%b","rows":[%b]}'
            % (self._timestamp_formatter.format_iso(feature_request.at_us), b",".join(rows)),
        )

    def _encode_row(self, entity: Entity, read: LookupResult, at_us: int, request_values: dict[str, Any]) -> bytes:
        encoded = read.cached_json or self._encode_values(entity, read, request_values)
        if read.event_time_us is None:
            return b'%b,"age_ms":null}' % encoded
        return b'%b,"age_ms":%d}' % (encoded, (at_us - read.event_time_us) // 1000)

    def _encode_values(self, entity: Entity, read: LookupResult, request_values: dict[str, Any]) -> bytes:
        """A row in JSON, without its age and what comes after it."""
        row = self._key_reader.entity_to_dict(entity)
        (derived,) = self._deriver.evaluate_rows([read.values], [request_values], [entity])
        row["values"] = dict(zip(self._feature_names, self._to_json_values([*read.values, *derived]), strict=True))
        row["event_time"] = None if read.event_time_us is None else to_datetime(read.event_time_us)
        encoded = encode_json(row).removesuffix(b"}")
        if not self._view.request_columns and not self._view.lookups:
            read.cached_json = encoded
        return encoded

    def _to_json_values(self, values: list[Any]) -> list[Any]:
        """The values as JSON can hold them: non-finite floats and the keys of maps are text."""
        for index in self._float_indexes:
            value = values[index]
            if value is not None and not isfinite(value):
                values[index] = non_finite_to_text(value)
        for index in self._map_indexes:
            values[index] = {key_text(key): count for key, count in values[index].items()}
        return values
