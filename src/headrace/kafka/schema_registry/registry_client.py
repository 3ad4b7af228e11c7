"""A client of a schema registry with Confluent's HTTP API.

Credentials come from the environment, never from code: HEADRACE_REGISTRY_TOKEN is sent as a bearer token,
HEADRACE_REGISTRY_AUTH, which is user:password, as basic authentication.
"""

import base64
import http.client
import json
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from headrace.declare.streams.encoding import ENV_PREFIX
from headrace.errors import HeadraceError

TOKEN_VARIABLE, AUTH_VARIABLE = "HEADRACE_REGISTRY_TOKEN", "HEADRACE_REGISTRY_AUTH"  # names, not secrets
REQUEST_TIMEOUT_SECONDS = 10.0
MAX_RESPONSE_BYTES = 4 << 20
MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"
SCHEMA_TYPES = {"avro": "AVRO", "protobuf": "PROTOBUF", "json": "JSON"}
_MAX_MESSAGE_LENGTH = 300


class RegistryUnavailable(HeadraceError):
    """No registry answers at the address, or it fails; a retry may help."""


class RegistryRefused(HeadraceError):
    """The registry refused the request."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class SchemaDefinition:
    """A registered schema: its text, its type, and its id in records."""

    id: int
    kind: str
    text: str
    has_references: bool = False


@dataclass(frozen=True)
class SubjectVersion:
    """A version of a subject."""

    number: int
    schema: SchemaDefinition


@dataclass(frozen=True)
class SchemaRegistryClient:
    """Sends requests to one registry; each call has a limit on time and size."""

    url: str
    timeout_s: float = REQUEST_TIMEOUT_SECONDS
    _credentials: str | None = field(default=None, repr=False)

    def get_schema(self, schema_id: int) -> SchemaDefinition | None:
        """The schema with an id; None where the registry has none."""
        try:
            response = self._request_json("GET", f"/schemas/ids/{schema_id}")
        except RegistryRefused as error:
            if error.status == 404:
                return None
            raise
        return _to_schema_definition(schema_id, response, self.url)

    def get_versions(self, subject: str) -> tuple[SubjectVersion, ...]:
        """Every version of a subject, the oldest first; empty for an unknown subject."""
        path = f"/subjects/{quote(subject, safe='')}/versions"
        try:
            numbers = self._request_json("GET", path)
        except RegistryRefused as error:
            if error.status == 404:
                return ()
            raise
        return tuple(self._get_version(f"{path}/{int(number)}") for number in sorted(numbers))

    def get_latest_version(self, subject: str) -> SubjectVersion | None:
        """The newest version of a subject; None where it has none."""
        try:
            return self._get_version(f"/subjects/{quote(subject, safe='')}/versions/latest")
        except RegistryRefused as error:
            if error.status == 404:
                return None
            raise

    def list_version_numbers(self, subject: str) -> tuple[int, ...]:
        """The version numbers of a subject: a cheap request."""
        try:
            return tuple(sorted(self._request_json("GET", f"/subjects/{quote(subject, safe='')}/versions")))
        except RegistryRefused as error:
            if error.status == 404:
                return ()
            raise

    def register_schema(self, subject: str, schema_type: str, text: str) -> int:
        """Register a schema, or find it registered; returns its id."""
        body = {"schema": text} | ({} if schema_type == "AVRO" else {"schemaType": schema_type})
        return int(self._request_json("POST", f"/subjects/{quote(subject, safe='')}/versions", body)["id"])

    def get_compatibility(self, subject: str) -> str:
        """The compatibility level of a subject, such as BACKWARD."""
        for path in (f"/config/{quote(subject, safe='')}", "/config"):
            try:
                response = self._request_json("GET", path)
            except RegistryRefused as error:
                if error.status == 404:
                    continue
                raise
            return str(response.get("compatibilityLevel") or response.get("compatibility") or "NONE").upper()
        return "NONE"

    def set_compatibility(self, subject: str, level: str) -> None:
        """Set the compatibility level of a subject."""
        self._request_json("PUT", f"/config/{quote(subject, safe='')}", {"compatibility": level})

    def check_compatibility(self, subject: str, schema_type: str, text: str) -> list[str]:
        """Why the registry would reject a schema as the next version of a subject; empty where it would accept it."""
        body = {"schema": text} | ({} if schema_type == "AVRO" else {"schemaType": schema_type})
        path = f"/compatibility/subjects/{quote(subject, safe='')}/versions/latest?verbose=true"
        try:
            response = self._request_json("POST", path, body)
        except RegistryRefused as error:
            if error.status == 404:  # the first version of its subject
                return []
            raise
        if response.get("is_compatible", False):
            return []
        return [str(message) for message in response.get("messages") or ["it does not say why"]]

    def _get_version(self, path: str) -> SubjectVersion:
        response = self._request_json("GET", path)
        return SubjectVersion(int(response["version"]), _to_schema_definition(int(response["id"]), response, self.url))

    def _request_json(self, method: str, path: str, body: Mapping[str, object] | None = None) -> Any:
        status, response_body = self._send_request(method, path, None if body is None else json.dumps(body))
        if status >= 500 or status in (408, 429):
            raise RegistryUnavailable(
                f"The registry at {self.url} answers {status}: {_error_message(response_body)}. Try again later."
            )
        if status == 404 and not _is_registry_error(response_body):
            raise self._not_a_registry_error(path)
        if status >= 300:
            raise RegistryRefused(
                f"The registry at {self.url} answers {status} to {method} {path.partition('?')[0]}: "
                f"{_error_message(response_body)}. "
                f"{_remedy(status)}",
                status,
            )
        try:
            return json.loads(response_body)
        except ValueError as error:
            raise self._not_a_registry_error(path) from error

    def _not_a_registry_error(self, path: str) -> RegistryRefused:
        return RegistryRefused(
            f"What answers at {self.url}{path} is no schema registry: {self.url} has to be the address under which "
            "/subjects is, such as http://host:8081 or http://host:8080/apis/ccompat/v7.",
            200,
        )

    def _send_request(self, method: str, path: str, body: str | None) -> tuple[int, bytes]:
        parts = urlsplit(self.url)
        host, port = parts.hostname or "", parts.port
        connection = (
            http.client.HTTPSConnection(host, port, timeout=self.timeout_s, context=ssl.create_default_context())
            if parts.scheme == "https"
            else http.client.HTTPConnection(host, port, timeout=self.timeout_s)
        )
        try:
            connection.request(method, parts.path + path, body, self._headers(body is not None))
            response = connection.getresponse()
            response_body = response.read(MAX_RESPONSE_BYTES + 1)
        except (OSError, http.client.HTTPException) as error:
            raise RegistryUnavailable(
                f"No schema registry answers at {self.url}: {error}. Start it, or fix registry=."
            ) from error
        finally:
            connection.close()
        if len(response_body) > MAX_RESPONSE_BYTES:
            raise RegistryRefused(f"The registry at {self.url} answers with more than {MAX_RESPONSE_BYTES} bytes.", 200)
        return response.status, response_body

    def _headers(self, has_body: bool) -> dict[str, str]:
        headers = {"Accept": f"{MEDIA_TYPE}, application/json"}
        if has_body:
            headers["Content-Type"] = MEDIA_TYPE
        if token := os.environ.get(TOKEN_VARIABLE):
            return headers | {"Authorization": f"Bearer {token}"}
        credentials = self._credentials or os.environ.get(AUTH_VARIABLE)
        if credentials:
            headers["Authorization"] = "Basic " + base64.b64encode(credentials.encode()).decode()
        return headers


def create_registry_client(address: str, timeout_s: float = REQUEST_TIMEOUT_SECONDS) -> SchemaRegistryClient:
    """A client for an address, or for the address in an environment variable; the password is kept separately."""
    url = address
    if address.startswith(ENV_PREFIX):
        name = address.removeprefix(ENV_PREFIX)
        url = os.environ.get(name, "")
        if not url.startswith(("http://", "https://")):
            raise RegistryRefused(
                f"registry={address!r}: the variable {name} has no address of a registry. "
                f"Set it: export {name}=http://127.0.0.1:8081.",
                0,
            )
    parts = urlsplit(url.rstrip("/"))
    credentials, _, host = parts.netloc.rpartition("@")
    return SchemaRegistryClient(parts._replace(netloc=host).geturl(), timeout_s, unquote(credentials) or None)


def _to_schema_definition(schema_id: int, response: Mapping[str, Any], url: str) -> SchemaDefinition:
    try:
        return SchemaDefinition(
            schema_id,
            str(response.get("schemaType") or "AVRO"),
            str(response["schema"]),
            bool(response.get("references")),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise RegistryRefused(f"The registry at {url} answers for id {schema_id} without a schema.", 200) from error


def _is_registry_error(response_body: bytes) -> bool:
    """Whether a response is from a registry, which has numbered errors."""
    try:
        return "error_code" in json.loads(response_body)
    except (ValueError, TypeError):
        return False


def _error_message(response_body: bytes) -> str:
    try:
        return str(json.loads(response_body).get("message"))[:_MAX_MESSAGE_LENGTH]
    except (ValueError, AttributeError):
        return response_body[:_MAX_MESSAGE_LENGTH].decode(errors="replace")


def _remedy(status: int) -> str:
    if status in (401, 403):
        return f"Set {TOKEN_VARIABLE}, or {AUTH_VARIABLE} to user:password."
    return "Fix what it names."
