"""The security settings of each broker: one file format for every client we have.

    ["kafka-1.example:9093,kafka-2.example:9093"]     the broker: no other address gets these credentials
    mechanism = "SCRAM-SHA-512"                       PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, or none
    username = "shop"
    password = "env:KAFKA_PASSWORD"                   or file:PATH, or the password itself
    ca = "ca.pem"                                     next to this file; without it, the system's CAs

HEADRACE_BROKER_SECURITY names the file, also for child processes, so that no secret is on a command line.
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
from headrace.storage.secrets import ENV_PREFIX, FILE_PREFIX, resolve_secret

SECURITY_FILE_VARIABLE = "HEADRACE_BROKER_SECURITY"
OAUTH_MECHANISM = "OAUTHBEARER"
PASSWORD_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
REQUIRED_SETTINGS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(PASSWORD_MECHANISMS, ("username", "password")),
    OAUTH_MECHANISM: ("token_url", "client_id", "client_secret"),
}
OPTIONAL_SETTINGS: Mapping[str, tuple[str, ...]] = {OAUTH_MECHANISM: ("scope",)}
COMMON_SETTINGS = ("mechanism", "tls", "ca", "certificate", "key", "key_password")
FILE_SETTINGS = ("ca", "certificate", "key")
SECRET_SETTINGS = ("password", "client_secret", "key_password")


class SecurityConfigError(HeadraceError):
    """A broker's security settings are unreadable or inconsistent."""


@dataclass(frozen=True)
class SecurityConfig:
    """How to connect to one cluster; no repr shows the secrets."""

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
        """The security protocol by its Kafka name."""
        if self.mechanism is None:
            return "SSL" if self.tls else "PLAINTEXT"
        return "SASL_SSL" if self.tls else "SASL_PLAINTEXT"

    @property
    def principal(self) -> str:
        """Our identity for errors, without secrets."""
        if self.mechanism is None:
            return f"the certificate {self.certificate}" if self.certificate else "an anonymous client"
        return f"{self.username or self.client_id} ({self.mechanism})"


def find_security_config(broker: str) -> SecurityConfig | None:
    """The settings of this broker; None for a broker without authentication and TLS."""
    addresses = _parse_addresses(broker)
    return next((security for security in read_security_configs() if addresses <= security.addresses), None)


def read_security_configs() -> tuple[SecurityConfig, ...]:
    """The settings of all brokers, from the file that the environment names."""
    path = os.environ.get(SECURITY_FILE_VARIABLE)
    return read_security_file(Path(path)) if path else ()


@cache
def read_security_file(path: Path) -> tuple[SecurityConfig, ...]:
    """The settings of each cluster in a file; it is read once, so changes take effect at the next start."""
    try:
        tables = tomllib.loads(path.read_text())
    except OSError as error:
        raise SecurityConfigError(
            f"--broker-security {path} cannot be read: {error.strerror}. Name a file of ours."
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        # The error does not quote the file: it may contain a secret.
        raise SecurityConfigError(
            f"--broker-security {path} is no TOML. See docs/brokers.md for how to write it."
        ) from None
    stray_settings = sorted(name for name, table in tables.items() if not isinstance(table, dict))
    if stray_settings or not tables:
        raise SecurityConfigError(
            f"{path}: {', '.join(stray_settings) or 'nothing'} belongs to no broker. "
            'Begin with the broker it is for, such as ["kafka.example:9093"], and put the settings below that line.'
        )
    return tuple(_parse_security(path, name, table) for name, table in tables.items())


def file_permission_warning(path: Path) -> str | None:
    """A warning about a file with secrets that other users may read; None where it is private or has no secrets."""
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        tables = tomllib.loads(path.read_text()).values()
    except (OSError, ValueError):
        return None  # reading it reports the error
    settings = (entry for table in tables if isinstance(table, dict) for entry in table.items())
    secret_values = [str(value) for setting, value in settings if setting in SECRET_SETTINGS]
    if not mode & 0o077 or all(value.startswith((ENV_PREFIX, FILE_PREFIX)) for value in secret_values):
        return None
    return f"{path} has secrets, and others on this machine may read it. Write: chmod 600 {path}"


def _parse_security(path: Path, broker: str, table: Mapping[str, Any]) -> SecurityConfig:
    where = f"{path}: [{broker!r}]"
    mechanism = table.get("mechanism")
    if mechanism is not None and str(mechanism) not in REQUIRED_SETTINGS:
        raise SecurityConfigError(
            f"{where}: mechanism={mechanism!r} is not known. Write one of {', '.join(REQUIRED_SETTINGS)}, or none."
        )
    _require_settings(where, mechanism, table)
    values: dict[str, Any] = dict(table)
    for setting in table:
        if setting in SECRET_SETTINGS:
            values[setting] = resolve_secret(table[setting], f"{where}: {setting}")
        elif setting in FILE_SETTINGS:
            values[setting] = _resolve_file(path, table[setting], f"{where}: {setting}")
    return SecurityConfig(_parse_addresses(broker), path, **values)


def _require_settings(where: str, mechanism: str | None, table: Mapping[str, Any]) -> None:
    needed = REQUIRED_SETTINGS.get(mechanism or "", ())
    known_settings = (*COMMON_SETTINGS, *needed, *OPTIONAL_SETTINGS.get(mechanism or "", ()))
    context = f"with mechanism {mechanism}" if mechanism else "without a mechanism"
    for setting, value in table.items():
        if setting not in known_settings:
            raise SecurityConfigError(
                f"{where}: {setting} means nothing {context}. There is {', '.join(known_settings)}."
            )
        if not isinstance(value, bool if setting == "tls" else str):
            raise SecurityConfigError(
                f"{where}: {setting} is no {'true or false' if setting == 'tls' else 'text'}. Fix it."
            )
    if missing := [word for word in needed if not table.get(word)]:
        raise SecurityConfigError(f"{where}: {', '.join(missing)} is missing {context}. Write it, secrets as env:NAME.")
    if bool(table.get("certificate")) != bool(table.get("key")):
        raise SecurityConfigError(f"{where}: certificate and key come together. Write both, or neither.")
    if table.get("tls") is False and any(table.get(word) for word in FILE_SETTINGS):
        raise SecurityConfigError(f"{where}: tls = false, and yet certificates. Leave out one or the other.")


def _resolve_file(config_file: Path, file_name: str, label: str) -> Path:
    path = config_file.absolute().parent / file_name
    if not path.is_file():
        raise SecurityConfigError(
            f"{label}={file_name!r}: there is no file {path}. Name a PEM file, relative to {config_file.name}."
        )
    return path


def _parse_addresses(text: str) -> frozenset[str]:
    return frozenset(address.strip().lower() for address in text.split(","))
