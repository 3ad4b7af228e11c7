"""Who we are to a broker, and whom we take for one: a file in one vocabulary, for every client we have.

    ["kafka-1.example:9093,kafka-2.example:9093"]     whom this is for: no other address is told of it
    mechanism = "SCRAM-SHA-512"                       PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, or none
    username = "shop"
    password = "env:KAFKA_PASSWORD"                   or file:PATH, or the password itself
    ca = "ca.pem"                                     beside this file; without it, whom the system trusts

HEADRACE_BROKER_SECURITY names the file. Processes that we start find it there too: nothing is on a command line.
"""

import os
import stat
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from headrace.errors import HeadraceError
from headrace.log.secrets import ENV, FILE, secret_in

VARIABLE = "HEADRACE_BROKER_SECURITY"
OAUTH = "OAUTHBEARER"
BY_PASSWORD = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
NEEDS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(BY_PASSWORD, ("username", "password")),
    OAUTH: ("token_url", "client_id", "client_secret"),
}
TAKES: Mapping[str, tuple[str, ...]] = {OAUTH: ("scope",)}
ALWAYS = ("mechanism", "tls", "ca", "certificate", "key", "key_password")
FILES = ("ca", "certificate", "key")
SECRETS = ("password", "client_secret", "key_password")


class BadSecurity(HeadraceError):
    """What is said about a broker's security cannot be read, or does not fit together."""


@dataclass(frozen=True)
class Security:
    """How to reach one cluster; what is secret is in no repr."""

    addresses: frozenset[str]
    file: Path
    tls: bool = True
    mechanism: str | None = None
    username: str = ""
    password: str = field(default="", repr=False)
    token_url: str = ""
    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    scope: str = ""
    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    key_password: str = field(default="", repr=False)

    @property
    def protocol(self) -> str:
        """As Kafka names it."""
        if self.mechanism is None:
            return "SSL" if self.tls else "PLAINTEXT"
        return "SASL_SSL" if self.tls else "SASL_PLAINTEXT"

    @property
    def who(self) -> str:
        """Who we say we are, in words without a secret."""
        if self.mechanism is None:
            return f"the certificate {self.certificate}" if self.certificate else "nobody in particular"
        return f"{self.username or self.client_id} ({self.mechanism})"


def security_of(broker: str) -> Security | None:
    """What is said of this broker; None where nothing is, which is a broker that asks nobody who comes."""
    asked = _addresses(broker)
    return next((one for one in every_security() if asked <= one.addresses), None)


def every_security() -> tuple[Security, ...]:
    """What is said of brokers, as the environment names the file."""
    path = os.environ.get(VARIABLE)
    return read_security(Path(path)) if path else ()


@cache
def read_security(path: Path) -> tuple[Security, ...]:
    """What a file says of each cluster; read once, so what is changed in it counts from the next start on."""
    try:
        written = tomllib.loads(path.read_text())
    except OSError as error:
        raise BadSecurity(f"--broker-security {path} cannot be read: {error.strerror}. Name a file of ours.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        # What was found there is not quoted: it may be a part of a secret.
        raise BadSecurity(f"--broker-security {path} is no TOML. See docs/brokers.md for how to write it.") from None
    loose = sorted(name for name, table in written.items() if not isinstance(table, dict))
    if loose or not written:
        raise BadSecurity(
            f"{path}: {', '.join(loose) or 'nothing'} is said of no broker. "
            'Begin with whom it is for, such as ["kafka.example:9093"], and go on below that line.'
        )
    return tuple(_security(path, name, table) for name, table in written.items())


def readable_by_others(path: Path) -> str | None:
    """A warning about a file of secrets that others may read; None where nobody else may, or it has none."""
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        tables = tomllib.loads(path.read_text()).values()
    except (OSError, ValueError):
        return None  # whoever reads it says so
    words = (item for table in tables if isinstance(table, dict) for item in table.items())
    kept_here = [str(value) for word, value in words if word in SECRETS]
    if not mode & 0o077 or all(value.startswith((ENV, FILE)) for value in kept_here):
        return None
    return f"{path} has secrets, and others on this machine may read it. Write: chmod 600 {path}"


def _security(path: Path, name: str, table: Mapping[str, Any]) -> Security:
    where = f"{path}: [{name!r}]"
    mechanism = table.get("mechanism")
    if mechanism is not None and str(mechanism) not in NEEDS:
        raise BadSecurity(f"{where}: mechanism={mechanism!r} is not known. Write one of {', '.join(NEEDS)}, or none.")
    _require_words(where, mechanism, table)
    values: dict[str, Any] = dict(table)
    for word in table:
        if word in SECRETS:
            values[word] = secret_in(table[word], f"{where}: {word}")
        elif word in FILES:
            values[word] = _file(path, table[word], f"{where}: {word}")
    return Security(_addresses(name), path, **values)


def _require_words(where: str, mechanism: str | None, table: Mapping[str, Any]) -> None:
    needed = NEEDS.get(mechanism or "", ())
    known = (*ALWAYS, *needed, *TAKES.get(mechanism or "", ()))
    said = f"with mechanism {mechanism}" if mechanism else "without a mechanism"
    for word, value in table.items():
        if word not in known:
            raise BadSecurity(f"{where}: {word} means nothing {said}. There is {', '.join(known)}.")
        if not isinstance(value, bool if word == "tls" else str):
            raise BadSecurity(f"{where}: {word} is no {'true or false' if word == 'tls' else 'text'}. Mend it.")
    if missing := [word for word in needed if not table.get(word)]:
        raise BadSecurity(f"{where}: {', '.join(missing)} is missing {said}. Write it, secrets as env:NAME.")
    if bool(table.get("certificate")) != bool(table.get("key")):
        raise BadSecurity(f"{where}: certificate and key come together. Write both, or neither.")
    if table.get("tls") is False and any(table.get(word) for word in FILES):
        raise BadSecurity(f"{where}: tls = false, and yet certificates. Leave out one or the other.")


def _file(beside: Path, written: str, what: str) -> Path:
    path = beside.absolute().parent / written
    if not path.is_file():
        raise BadSecurity(f"{what}={written!r}: there is no file {path}. Name a PEM file, beside {beside.name}.")
    return path


def _addresses(text: str) -> frozenset[str]:
    return frozenset(address.strip().lower() for address in text.split(","))
