"""A schema registry, asked over HTTP as Confluent's is: any that speaks that interface will do.

Who may ask stands in the environment, never in code: HEADRACE_REGISTRY_TOKEN is sent as a bearer's token,
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

from headrace.declare.encoded import ENV
from headrace.errors import HeadraceError

TOKEN, AUTH = "HEADRACE_REGISTRY_TOKEN", "HEADRACE_REGISTRY_AUTH"  # names, not secrets
ANSWER_SECONDS = 10.0
MOST_BYTES = 4 << 20
MEDIA = "application/vnd.schemaregistry.v1+json"
KINDS = {"avro": "AVRO", "protobuf": "PROTOBUF", "json": "JSON"}
_SAID = 300


class RegistryAway(HeadraceError):
    """No registry answers at the address, or it is in trouble itself; asking again may help."""


class RegistryRefused(HeadraceError):
    """The registry has answered, and said no."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Registered:
    """A schema as it was registered: its text, its kind, and the id it is known by in records."""

    id: int
    kind: str
    text: str
    has_references: bool = False


@dataclass(frozen=True)
class Version:
    """A version of a subject."""

    number: int
    schema: Registered


@dataclass(frozen=True)
class Registry:
    """Asks one registry; each call is a request of its own, with a limit on time and size."""

    url: str
    answer_seconds: float = ANSWER_SECONDS
    _secret: str | None = field(default=None, repr=False)

    def by_id(self, schema_id: int) -> Registered | None:
        """The schema an id stands for; None where the registry knows none."""
        try:
            found = self._ask("GET", f"/schemas/ids/{schema_id}")
        except RegistryRefused as refused:
            if refused.status == 404:
                return None
            raise
        return _registered(schema_id, found, self.url)

    def versions(self, subject: str) -> tuple[Version, ...]:
        """Every version of a subject, the oldest first; none of a subject that is not there."""
        path = f"/subjects/{quote(subject, safe='')}/versions"
        try:
            numbers = self._ask("GET", path)
        except RegistryRefused as refused:
            if refused.status == 404:
                return ()
            raise
        return tuple(self._version(f"{path}/{int(number)}") for number in sorted(numbers))

    def latest(self, subject: str) -> Version | None:
        """The newest version of a subject; None where it has none."""
        try:
            return self._version(f"/subjects/{quote(subject, safe='')}/versions/latest")
        except RegistryRefused as refused:
            if refused.status == 404:
                return None
            raise

    def numbers(self, subject: str) -> tuple[int, ...]:
        """The numbers of a subject's versions: a light question."""
        try:
            return tuple(sorted(self._ask("GET", f"/subjects/{quote(subject, safe='')}/versions")))
        except RegistryRefused as refused:
            if refused.status == 404:
                return ()
            raise

    def register(self, subject: str, kind: str, text: str) -> int:
        """Register a schema, or find it registered; its id."""
        body = {"schema": text} | ({} if kind == "AVRO" else {"schemaType": kind})
        return int(self._ask("POST", f"/subjects/{quote(subject, safe='')}/versions", body)["id"])

    def level(self, subject: str) -> str:
        """What a new version of a subject has to be to those before it, such as BACKWARD."""
        for path in (f"/config/{quote(subject, safe='')}", "/config"):
            try:
                said = self._ask("GET", path)
            except RegistryRefused as refused:
                if refused.status == 404:
                    continue
                raise
            return str(said.get("compatibilityLevel") or said.get("compatibility") or "NONE").upper()
        return "NONE"

    def set_level(self, subject: str, level: str) -> None:
        """Set what a new version of a subject has to be."""
        self._ask("PUT", f"/config/{quote(subject, safe='')}", {"compatibility": level})

    def objections(self, subject: str, kind: str, text: str) -> list[str]:
        """Why the registry would not take a schema as the next version of a subject; empty where it would."""
        body = {"schema": text} | ({} if kind == "AVRO" else {"schemaType": kind})
        path = f"/compatibility/subjects/{quote(subject, safe='')}/versions/latest?verbose=true"
        try:
            said = self._ask("POST", path, body)
        except RegistryRefused as refused:
            if refused.status == 404:  # the first version of its subject
                return []
            raise
        if said.get("is_compatible", False):
            return []
        return [str(message) for message in said.get("messages") or ["it does not say why"]]

    def _version(self, path: str) -> Version:
        found = self._ask("GET", path)
        return Version(int(found["version"]), _registered(int(found["id"]), found, self.url))

    def _ask(self, method: str, path: str, body: Mapping[str, object] | None = None) -> Any:
        status, answer = self._sent(method, path, None if body is None else json.dumps(body))
        if status >= 500 or status in (408, 429):
            raise RegistryAway(f"The registry at {self.url} answers {status}: {_said(answer)}. Try again later.")
        if status == 404 and not _is_of_registry(answer):
            raise self._no_registry(path)
        if status >= 300:
            raise RegistryRefused(
                f"The registry at {self.url} answers {status} to {method} {path.partition('?')[0]}: {_said(answer)}. "
                f"{_remedy(status)}",
                status,
            )
        try:
            return json.loads(answer)
        except ValueError as error:
            raise self._no_registry(path) from error

    def _no_registry(self, path: str) -> RegistryRefused:
        return RegistryRefused(
            f"What answers at {self.url}{path} is no schema registry: {self.url} has to be the address under which "
            "/subjects is, such as http://host:8081 or http://host:8080/apis/ccompat/v7.",
            200,
        )

    def _sent(self, method: str, path: str, body: str | None) -> tuple[int, bytes]:
        parts = urlsplit(self.url)
        host, port = parts.hostname or "", parts.port
        connection = (
            http.client.HTTPSConnection(host, port, timeout=self.answer_seconds, context=ssl.create_default_context())
            if parts.scheme == "https"
            else http.client.HTTPConnection(host, port, timeout=self.answer_seconds)
        )
        try:
            connection.request(method, parts.path + path, body, self._headers(body is not None))
            response = connection.getresponse()
            answer = response.read(MOST_BYTES + 1)
        except (OSError, http.client.HTTPException) as error:
            raise RegistryAway(
                f"No schema registry answers at {self.url}: {error}. Start it, or mend registry=."
            ) from error
        finally:
            connection.close()
        if len(answer) > MOST_BYTES:
            raise RegistryRefused(f"The registry at {self.url} answers with more than {MOST_BYTES} bytes.", 200)
        return response.status, answer

    def _headers(self, has_body: bool) -> dict[str, str]:
        headers = {"Accept": f"{MEDIA}, application/json"}
        if has_body:
            headers["Content-Type"] = MEDIA
        if token := os.environ.get(TOKEN):
            return headers | {"Authorization": f"Bearer {token}"}
        secret = self._secret or os.environ.get(AUTH)
        if secret:
            headers["Authorization"] = "Basic " + base64.b64encode(secret.encode()).decode()
        return headers


def registry_at(address: str, answer_seconds: float = ANSWER_SECONDS) -> Registry:
    """The registry at an address, or at the one that an environment variable has; its password is kept apart."""
    written = address
    if address.startswith(ENV):
        name = address.removeprefix(ENV)
        written = os.environ.get(name, "")
        if not written.startswith(("http://", "https://")):
            raise RegistryRefused(
                f"registry={address!r}: the variable {name} has no address of a registry. "
                f"Set it: export {name}=http://127.0.0.1:8081.",
                0,
            )
    parts = urlsplit(written.rstrip("/"))
    user, _, place = parts.netloc.rpartition("@")
    return Registry(parts._replace(netloc=place).geturl(), answer_seconds, unquote(user) or None)


def _registered(schema_id: int, found: Mapping[str, Any], url: str) -> Registered:
    try:
        return Registered(
            schema_id, str(found.get("schemaType") or "AVRO"), str(found["schema"]), bool(found.get("references"))
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise RegistryRefused(f"The registry at {url} answers for id {schema_id} without a schema.", 200) from error


def _is_of_registry(answer: bytes) -> bool:
    """Whether an answer is in the words of a registry, which numbers its errors."""
    try:
        return "error_code" in json.loads(answer)
    except (ValueError, TypeError):
        return False


def _said(answer: bytes) -> str:
    try:
        return str(json.loads(answer).get("message"))[:_SAID]
    except (ValueError, AttributeError):
        return answer[:_SAID].decode(errors="replace")


def _remedy(status: int) -> str:
    if status in (401, 403):
        return f"Set {TOKEN}, or {AUTH} to user:password."
    return "Mend what it names."
