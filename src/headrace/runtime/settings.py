"""Settings: from flags, then HEADRACE_* variables, then headrace.toml."""

import os
import tomllib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import click

from headrace.declare.durations import duration_us
from headrace.errors import HeadraceError
from headrace.kafka.client.security import SECURITY_FILE_VARIABLE as SECURITY_VARIABLE
from headrace.kafka.client.security import file_permission_warning, read_security_file
from headrace.lake.formats.format_detection import FORMATS, FormatName
from headrace.runtime.locations import DEFAULT_STATE_FOLDER, location_option
from headrace.server.auth.access_config import DEFAULT_ACCESS, DEFAULT_REQUESTS_PER_SECOND, AccessConfig

SETTINGS_FILE = Path("headrace.toml")
OTLP_VARIABLE = "OTEL_EXPORTER_OTLP_ENDPOINT"
LANES = ("real-time", "micro-batch")
MIN_CHECKPOINT_SECONDS = 5
# Settings of one start, not of every one.
ONE_TIME_SETTINGS = {"rebuild": "--rebuild STREAM", "since": "--since TIME", "from-savepoint": "--from-savepoint NAME"}
ONE_TIME_SETTINGS |= {"take-over": "--take-over"}
Command = TypeVar("Command", bound=Callable[..., Any])


class BadSetting(HeadraceError):
    """A setting that cannot be read."""


@dataclass(frozen=True)
class Settings:
    """Where an app runs: its HTTP address, log, store, Spark and state folder."""

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


def parse_settings(flags: dict[str, Any]) -> Settings:
    """The settings of a command's flags."""
    limit = flags["for_"]
    return Settings(
        http=flags["http"],
        broker=flags["broker"],
        broker_port=flags["broker_port"],
        store=flags["store"],
        spark=flags["spark"],
        state=Path(flags["state"]),
        limit_s=None if limit is None else duration_us(limit, "--for") / 1_000_000,
        rebuild=frozenset(flags["rebuild"]),
        lane=flags["lane"],
        checkpoint_seconds=_parse_checkpoint_seconds(flags["checkpoint"]),
        lake=lake_folder(flags["lake"], Path(flags["state"])),
        lake_every_s=duration_us(flags["lake_every"], "--lake-every") / 1_000_000,
        lake_retention=_parse_lake_retention(flags["lake_retention"]),
        lake_format=flags["lake_format"],
        workers=flags["workers"],
        worker=flags.get("worker"),
        alerts_every_s=duration_us(flags["alerts_every"], "--alerts-every") / 1_000_000,
        webhook=flags["webhook"],
        webhook_allow=tuple(flags["webhook_allow"]),
        webhook_ca=_optional_path(flags["webhook_ca"]),
        otlp=_otlp_receiver(flags["otlp"]),
        otlp_every_s=duration_us(flags["otlp_every"], "--otlp-every") / 1_000_000,
        access=AccessConfig(
            _optional_path(flags["tls_cert"]),
            _optional_path(flags["tls_key"]),
            flags["behind_proxy"],
            tuple(flags["allow_host"]),
            flags["rate"],
        ),
        since_us=_parse_since_us(flags["since"], flags["rebuild"]),
        savepoint=flags["from_savepoint"],
        starts_registry=flags.get("schema_registry", False),
        registry_port=flags.get("registry_port", 8081),
        take_over=flags["take_over"],
    )


def _parse_since_us(text: str | None, rebuild: Sequence[str]) -> int | None:
    if text is None:
        return None
    if not rebuild:
        raise BadSetting(f"--since {text!r} says where a rebuild begins. Write --rebuild NAME with it.")
    try:
        since = datetime.fromisoformat(text)
    except ValueError as error:
        raise BadSetting(f"--since {text!r} is not a time. Write it as 2026-01-01T00:00:00Z.") from error
    return int(since.replace(tzinfo=since.tzinfo or UTC).timestamp() * 1_000_000)


def _otlp_receiver(text: str | None) -> str | None:
    """Where to push: as was said, or as the variable says that all who speak OTLP know."""
    receiver = text or os.environ.get(OTLP_VARIABLE)
    return None if receiver == "off" else receiver or None


def _optional_path(text: str | None) -> Path | None:
    return Path(text) if text else None


def _parse_checkpoint_seconds(text: str) -> int:
    seconds = duration_us(text, "--checkpoint") // 1_000_000
    if seconds < MIN_CHECKPOINT_SECONDS:
        raise BadSetting(f"--checkpoint {text!r} is too short: Spark wants {MIN_CHECKPOINT_SECONDS}s or more.")
    return seconds


def lake_folder(text: str | None, state: Path) -> Path | None:
    """Where the lake is: beside the other state unless told another place; None where it is switched off."""
    if text == "off":
        return None
    return Path(text) if text else state / "lake"


def _parse_lake_retention(text: str) -> timedelta | None:
    if text == "forever":
        return None
    retention = timedelta(microseconds=duration_us(text, "--lake-retention"))
    if retention < timedelta(days=1):
        raise BadSetting(f"--lake-retention {text!r} is too short: days are kept whole. Write 1d or more, or forever.")
    return retention


PART_OPTIONS = (
    location_option("http"),
    click.option(
        "--workers", type=click.IntRange(1), default=1, show_default=True, help="How many processes serve over HTTP."
    ),
    location_option("broker"),
    location_option("broker_port"),
    location_option("store"),
    click.option("--spark", metavar="MASTER", help="Your Spark master; without it, Spark runs here."),
    location_option("state"),
    click.option("--for", "for_", metavar="DURATION", help="Stop cleanly after this long, such as 2m."),
    click.option(
        "--rebuild", multiple=True, metavar="STREAM", help="Compute this stream's views again from its clean log."
    ),
    click.option("--since", metavar="TIME", help="With --rebuild of an operation: read what was appended since then."),
    click.option("--from-savepoint", metavar="NAME", help="Go back to the state that this savepoint has."),
    click.option("--take-over", is_flag=True, help="Write topics that belong to another app, which then stops."),
    click.option(
        "--lane",
        type=click.Choice(LANES),
        default=LANES[0],
        show_default=True,
        help="How the queries run once caught up.",
    ),
    click.option(
        "--checkpoint",
        default="5m",
        show_default=True,
        metavar="DURATION",
        help="How often a real-time query saves its state: output pauses for a moment, and a crash goes back so far.",
    ),
    location_option("lake"),
    click.option(
        "--lake-every", default="1m", show_default=True, metavar="DURATION", help="How often topics land in the lake."
    ),
    click.option(
        "--lake-retention",
        default="forever",
        show_default=True,
        metavar="DURATION",
        help="How many days the lake keeps, such as 90d.",
    ),
    click.option("--lake-format", type=click.Choice(FORMATS), help="What a new lake is written in; without it, delta."),
    click.option(
        "--alerts-every", default="5s", show_default=True, metavar="DURATION", help="How often alerts are looked at."
    ),
    click.option("--webhook", metavar="https://…", help="Who is told of alerts; rather set HEADRACE_WEBHOOK."),
    click.option(
        "--webhook-allow",
        multiple=True,
        metavar="ADDRESS",
        help="An address or network that is not public, and may be told.",
    ),
    click.option("--webhook-ca", metavar="FILE", help="Certificates to trust for the webhook, in PEM."),
    click.option(
        "--otlp",
        metavar="https://…|off",
        help="A receiver of OpenTelemetry that numbers and spans are pushed to; also OTEL_EXPORTER_OTLP_ENDPOINT.",
    ),
    click.option("--otlp-every", default="10s", show_default=True, metavar="DURATION", help="How often they are."),
    click.option("--tls-cert", metavar="FILE", help="The server's certificate, in PEM: it then speaks HTTPS."),
    click.option("--tls-key", metavar="FILE", help="The private key of that certificate, in PEM."),
    click.option("--behind-proxy", is_flag=True, help="A proxy does TLS, and says in X-Forwarded-For who asks."),
    click.option("--allow-host", multiple=True, metavar="NAME", help="A name that the server is asked by, as in Host."),
    click.option(
        "--rate",
        type=click.FloatRange(1),
        default=DEFAULT_REQUESTS_PER_SECOND,
        show_default=True,
        help="How many requests a second one token may make, of each worker.",
    ),
)


def _export_security_file(_context: click.Context, _option: click.Parameter, path_text: str | None) -> None:
    """Every client of this process, and of those it starts, finds it in the environment."""
    if path_text:
        file = Path(path_text).absolute()
        read_security_file(file)
        os.environ[SECURITY_VARIABLE] = str(file)
        if warning := file_permission_warning(file):
            click.echo(f"headrace: {warning}", err=True)


SECURITY_OPTION = click.Option(
    ["--broker-security"],
    metavar="FILE",
    callback=_export_security_file,
    expose_value=False,
    help="Who you are to a Kafka that asks, and which certificates count: docs/brokers.md.",
)


BROKER_OPTIONS = (location_option("broker"), location_option("broker_port"))

# The events are read from the lake; with --lake off, straight from the log.
SOURCE_OPTIONS = (
    location_option("state"),
    location_option("lake"),
    *BROKER_OPTIONS,
    click.option("--spark", metavar="MASTER", help="Your Spark master; without it, Spark runs here."),
    click.option("--json", "in_json", is_flag=True, help="Say what was found as JSON."),
)

SPINE_OPTIONS = (
    click.option("--spine", metavar="FILE", help="Rows of entity and time, and whatever else."),
    click.option("--as-of", type=click.Choice(["arrival", "event"]), default="arrival", show_default=True),
    click.option("--time", metavar="COLUMN", help="The spine's column of times; else that of the stream."),
    *SOURCE_OPTIONS,
)


def broker_from_flags(flags: dict[str, Any]) -> str:
    """The broker whose log is meant."""
    return flags["broker"] or f"127.0.0.1:{flags['broker_port']}"


def require_spine(flags: dict[str, Any]) -> Path:
    """The file of a spine."""
    if flags["spine"] is None:
        raise BadSetting("--spine is missing. Name a file of rows with entity and time: --spine labels.parquet.")
    return Path(flags["spine"])


def event_source(flags: dict[str, Any]) -> str:
    """Where events are read: the lake or, where there is none, the log."""
    lake = find_lake_folder(flags)
    is_in_log = lake is None or (flags["broker"] is not None and not lake.is_dir())
    return f"kafka://{broker_from_flags(flags)}" if is_in_log else str(lake)


def find_lake_folder(flags: dict[str, Any]) -> Path | None:
    """The lake that a command reads; one that is only where it was before `--state` moved it is told of."""
    state, default_folder = Path(flags["state"]), Path(DEFAULT_STATE_FOLDER) / "lake"
    lake = lake_folder(flags["lake"], state)
    if not flags["lake"] and lake != default_folder and not (state / "lake").exists() and default_folder.is_dir():
        click.echo(
            f"headrace: --state {state} is where the lake is too, and {state / 'lake'} does not exist. "
            f"To read the one in {default_folder}, give --lake {default_folder}.",
            err=True,
        )
    return lake


def options(option_decorators: tuple[Callable[[Any], Any], ...]) -> Callable[[Command], Command]:
    """Give a command these flags, in this order."""

    def decorate(command: Command) -> Command:
        for option in reversed(option_decorators):
            command = option(command)
        return command

    return decorate


def settings_options(command: Command) -> Command:
    """Give a command the flags every running part has."""
    return options(PART_OPTIONS)(command)


def file_defaults(commands: Sequence[str]) -> dict[str, Any]:
    """The settings of headrace.toml, for every command that has them."""
    if not SETTINGS_FILE.exists():
        return {}
    try:
        file_values = tomllib.loads(SETTINGS_FILE.read_text())
    except tomllib.TOMLDecodeError as error:
        raise BadSetting(
            f'{SETTINGS_FILE} cannot be read: {error}. Write lines such as http = "127.0.0.1:8080".'
        ) from error
    for setting in ONE_TIME_SETTINGS.keys() & file_values.keys():
        raise BadSetting(
            f"{SETTINGS_FILE} sets {setting}, which would be done at each start. Give it once: "
            f"{ONE_TIME_SETTINGS[setting]}."
        )
    flat = {("for_" if name == "for" else name.replace("-", "_")): value for name, value in file_values.items()}
    return dict.fromkeys(commands, flat)


def group_defaults(defaults: dict[str, Any], group: str, commands: Iterable[str]) -> dict[str, Any]:
    """The settings of headrace.toml, for each command of a group as well."""
    return defaults | {group: dict.fromkeys(commands, defaults[group])} if defaults else {}
