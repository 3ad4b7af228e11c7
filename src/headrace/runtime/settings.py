"""The settings of an app's run, and the locations that commands derive from their flags."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from headrace.errors import HeadraceError
from headrace.lake.formats.registry import FormatName
from headrace.runtime.configuration.state_folder import DEFAULT_STATE_FOLDER
from headrace.server.auth.access_config import DEFAULT_ACCESS, AccessConfig


class BadSetting(HeadraceError):
    """A setting that cannot be parsed."""


@dataclass(frozen=True)
class Settings:
    """The settings of an app: its HTTP address, broker, store, Spark, state folder and the rest."""

    http: str
    broker: str | None
    broker_port: int
    store: str
    spark: str | None
    state: Path
    limit_s: float | None
    rebuild: frozenset[str]
    lane: str
    checkpoint_seconds: int
    lake: Path | None = None
    lake_every_s: float = 60.0
    lake_retention: timedelta | None = None
    lake_format: FormatName | None = None
    workers: int = 1
    worker: int | None = None
    alerts_every_s: float = 5.0
    webhook: str | None = field(default=None, repr=False)
    webhook_allow: tuple[str, ...] = ()
    webhook_ca: Path | None = None
    otlp: str | None = field(default=None, repr=False)
    otlp_every_s: float = 10.0
    access: AccessConfig = DEFAULT_ACCESS
    since_us: int | None = None
    savepoint: str | None = None
    starts_registry: bool = False
    registry_port: int = 8081
    take_over: bool = False

    @property
    def broker_address(self) -> str:
        """The broker's address: the given one, or that of the embedded one."""
        return broker_or_embedded(self.broker, self.broker_port)

    @property
    def host(self) -> str:
        return self._http_parts()[0]

    @property
    def port(self) -> int:
        return self._http_parts()[1]

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'http' if self.access.tls_cert is None else 'https'}://{host}:{self.port}"

    def _http_parts(self) -> tuple[str, int]:
        host, _, port = self.http.rpartition(":")
        if not host or not port.isdigit():
            raise BadSetting(f"--http {self.http!r} is not HOST:PORT. Write it as 127.0.0.1:8080.")
        return host.strip("[]"), int(port)


def lake_folder(text: str | None, state: Path) -> Path | None:
    """The folder of the lake: in the state folder unless given; None if the lake is off."""
    if text == "off":
        return None
    return Path(text) if text else state / "lake"


def broker_or_embedded(broker: str | None, broker_port: int) -> str:
    """The address of the given broker or, without one, of the broker that `headrace up` starts here."""
    return broker or f"127.0.0.1:{broker_port}"


def broker_from_flags(flags: Mapping[str, Any]) -> str:
    """The broker address of a command's flags."""
    return broker_or_embedded(flags["broker"], flags["broker_port"])


def require_spine(flags: dict[str, Any]) -> Path:
    """The spine file of a command's flags."""
    if flags["spine"] is None:
        raise BadSetting("--spine is missing. Name a file of rows with entity and time: --spine labels.parquet.")
    return Path(flags["spine"])


def event_source(flags: dict[str, Any]) -> str:
    """The source of events: the lake or, without one, the log."""
    lake = find_lake_folder(flags)
    is_in_log = lake is None or (flags["broker"] is not None and not lake.is_dir())
    return f"kafka://{broker_from_flags(flags)}" if is_in_log else str(lake)


def find_lake_folder(flags: dict[str, Any]) -> Path | None:
    """The lake that a command reads; prints a note if it exists only in the default state folder."""
    state, default_folder = Path(flags["state"]), Path(DEFAULT_STATE_FOLDER) / "lake"
    lake = lake_folder(flags["lake"], state)
    if not flags["lake"] and lake != default_folder and not (state / "lake").exists() and default_folder.is_dir():
        click.echo(
            f"headrace: --state {state} is where the lake is too, and {state / 'lake'} does not exist. "
            f"To read the one in {default_folder}, give --lake {default_folder}.",
            err=True,
        )
    return lake
