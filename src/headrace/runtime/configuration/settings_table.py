"""The table of settings: one row per setting, in the order of `headrace up --help`.

A new setting is a row here and, if parts use it, an attribute of `Settings`.
"""

import os
from pathlib import Path

import click

from headrace.kafka.client.security import SECURITY_FILE_VARIABLE, file_permission_warning, read_security_file
from headrace.lake.formats.registry import DEFAULT_FORMAT, FORMATS
from headrace.models.versions.model_registry import (
    MODEL_REGISTRY_EXAMPLE,
    MODEL_REGISTRY_METAVAR,
    MODEL_REGISTRY_TITLES,
)
from headrace.online_store.registry import MEMORY, STORE_METAVAR
from headrace.runtime.configuration.setting import EVERY_COMMAND, PART_COMMANDS, Handover, Setting
from headrace.runtime.configuration.state_folder import DEFAULT_STATE_FOLDER, record_state_folder
from headrace.runtime.configuration.value_formats import (
    CHECKPOINT_INTERVAL,
    COUNT,
    DURATION,
    FILE,
    FOLDER,
    INTEGER,
    LAKE,
    NUMBER,
    OTLP_RECEIVER,
    RETENTION,
    STREAMS,
    SWITCH,
    TIME,
    one_of,
    text_as,
    texts_as,
)
from headrace.server.auth.access_config import DEFAULT_REQUESTS_PER_SECOND

LANES = ("real-time", "micro-batch")
SPARK_COMMANDS = (*PART_COMMANDS, "backfill", "train", "retrain", "score", "check", "state", "lateness")


def _export_security_file(_context: click.Context, _option: click.Parameter, path_text: str | None) -> None:
    """Export the security file to the environment, for the clients of this process and of its child processes."""
    if path_text:
        file = Path(path_text).absolute()
        read_security_file(file)
        os.environ[SECURITY_FILE_VARIABLE] = str(file)
        if warning := file_permission_warning(file):
            click.echo(f"headrace: {warning}", err=True)


SETTINGS = (
    Setting(  # the index of a worker, set by the process that starts the workers
        "worker", "", INTEGER, commands=("run",), handover=Handover.NONE, is_hidden=True
    ),
    Setting(
        "http",
        "The address of the HTTP server.",
        text_as("HOST:PORT", "127.0.0.1:8089"),
        default="127.0.0.1:8080",
        commands=EVERY_COMMAND,
    ),
    Setting("workers", "The number of HTTP server processes.", COUNT, default=1),
    Setting(
        "broker",
        "Your Kafka cluster; default: the embedded broker of `headrace up`.",
        text_as("HOST:PORT", "kafka.example:9092"),
        commands=EVERY_COMMAND,
        handed_field="broker_address",
    ),
    Setting(
        "broker_security",
        "Credentials and certificates for Kafka authentication: docs/brokers.md.",
        FILE,
        commands=EVERY_COMMAND,
        handover=Handover.NONE,  # the environment, which parts inherit, has it as soon as it is read
        field="",
        callback=_export_security_file,
    ),
    Setting(
        "broker_port",
        "The port of the embedded broker.",
        INTEGER,
        default=9092,
        commands=EVERY_COMMAND,
        handover=Handover.NONE,
    ),
    Setting(
        "store",
        "The online store.",
        text_as(STORE_METAVAR, "redis://:word@cache.example"),
        default=MEMORY.name,
        commands=EVERY_COMMAND,
        handover=Handover.SECRET,  # it may hold a password
    ),
    Setting(
        "spark",
        "Your Spark master; default: Spark in local mode.",
        text_as("MASTER", "spark://spark.example:7077"),
        commands=SPARK_COMMANDS,
    ),
    Setting(
        "state",
        "The state folder: checkpoints, lake, models, tokens, the log of the embedded broker.",
        FOLDER,
        default=DEFAULT_STATE_FOLDER,
        commands=EVERY_COMMAND,
        callback=record_state_folder,
    ),
    Setting(
        "for_", "Shut down gracefully after this time, such as 2m.", DURATION, handover=Handover.NONE, field="limit_s"
    ),
    Setting(
        "rebuild",
        "Recompute the views of this stream from its clean log.",
        STREAMS,
        handover=Handover.ONCE,
        is_repeatable=True,
    ),
    Setting(
        "since",
        "With --rebuild of an operation: read events appended since this time.",
        TIME,
        handover=Handover.ONCE,
        field="since_us",
    ),
    Setting(
        "from_savepoint",
        "Restore the state of this savepoint.",
        text_as("NAME", "before-the-change"),
        handover=Handover.ONCE,
        field="savepoint",
    ),
    Setting(
        "take_over", "Take over topics that another app owns, which then stops writing.", SWITCH, handover=Handover.ONCE
    ),
    Setting("lane", "How Spark executes the queries when they have caught up.", one_of(LANES), default=LANES[0]),
    Setting(
        "checkpoint",
        "The checkpoint interval of real-time queries: output pauses briefly; a crash reprocesses at most this much.",
        CHECKPOINT_INTERVAL,
        default="5m",
        field="checkpoint_seconds",
    ),
    Setting("lake", "The folder of the lake (offline store); default: STATE/lake.", LAKE, commands=EVERY_COMMAND),
    Setting("lake_every", "How often topics are ingested into the lake.", DURATION, default="1m", field="lake_every_s"),
    Setting("lake_retention", "The retention of the lake, such as 90d.", RETENTION, default="forever"),
    Setting("lake_format", f"The table format of a new lake; default: {DEFAULT_FORMAT.name}.", one_of(FORMATS)),
    Setting("alerts_every", "How often alerts are evaluated.", DURATION, default="5s", field="alerts_every_s"),
    Setting(
        "webhook",
        "The webhook for alert notifications; better set HEADRACE_WEBHOOK.",
        text_as("https://…", "https://hooks.example/word"),
        handover=Handover.SECRET,  # its path is a secret
    ),
    Setting(
        "webhook_allow",
        "A non-public address or network that webhooks may connect to.",
        texts_as("ADDRESS", "10.1.2.3"),
        is_repeatable=True,
    ),
    Setting("webhook_ca", "CA certificates to trust for the webhook, in PEM.", FILE),
    Setting(
        "otlp",
        "The OpenTelemetry receiver of metrics and spans; also OTEL_EXPORTER_OTLP_ENDPOINT.",
        OTLP_RECEIVER,
        handover=Handover.SECRET,  # it may hold a token
    ),
    Setting("otlp_every", "How often metrics and spans are pushed.", DURATION, default="10s", field="otlp_every_s"),
    Setting(
        "tls_cert",
        "The server's TLS certificate, in PEM.",
        FILE,
        commands=(*PART_COMMANDS, "status", "doctor"),
        field="access.tls_cert",
    ),
    Setting("tls_key", "The private key of that certificate, in PEM.", FILE, field="access.tls_key"),
    Setting(
        "behind_proxy",
        "A reverse proxy terminates TLS and sets X-Forwarded-For.",
        SWITCH,
        field="access.is_behind_proxy",
    ),
    Setting(
        "allow_host",
        "A host name that requests may have in Host.",
        texts_as("NAME", "shop.example"),
        is_repeatable=True,
        field="access.allowed_hosts",
    ),
    Setting(
        "rate",
        "The rate limit of a token: requests a second for each worker.",
        NUMBER,
        default=DEFAULT_REQUESTS_PER_SECOND,
        field="access.requests_per_second",
    ),
    Setting(
        "schema_registry",
        "Start an embedded schema registry as well.",
        SWITCH,
        commands=("up",),
        handover=Handover.NONE,
        flag="--registry",
        field="starts_registry",
    ),
    Setting(
        "registry_port",
        "The port of the embedded schema registry.",
        INTEGER,
        default=8081,
        commands=("up",),
        handover=Handover.NONE,
    ),
    Setting(
        "registry",
        f"Publish versions and champion to {MODEL_REGISTRY_TITLES} as well.",
        text_as(MODEL_REGISTRY_METAVAR, MODEL_REGISTRY_EXAMPLE),
        commands=("train", "retrain", "models"),
        handover=Handover.NONE,
        field="",
    ),
)
SETTINGS_BY_NAME = {setting.name: setting for setting in SETTINGS}
# The locations of an app: every command accepts these, with one meaning, one default and one variable.
LOCATIONS = tuple(setting for setting in SETTINGS if setting.commands == EVERY_COMMAND and setting.settings_field)
