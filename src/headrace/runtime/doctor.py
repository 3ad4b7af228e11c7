"""Checks the requirements of an app on this machine, each with the command that fixes it."""

import json
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path

from headrace.connectors.registries import connector_drivers
from headrace.embedded_servers.broker import recorded_broker
from headrace.embedded_servers.jars import REQUIRED_JAR_SETS, JarSet, cache_dir, faulty_jars, locked_jars
from headrace.embedded_servers.java import find_java, install_command
from headrace.embedded_servers.ports import HOST, is_free, is_listening, parse_address, port_holder
from headrace.errors import HeadraceError
from headrace.kafka.client.client import create_admin_client, fetch_metadata
from headrace.kafka.client.security import find_security_config
from headrace.online_store.registry import UnknownStoreError, find_store, mask_store_url
from headrace.plugins import DriverMissing
from headrace.server.auth.internal_client import InternalClient

_OLDEST_PYTHON = (3, 11)
_MIN_FREE_BYTES = 2 << 30
_CONNECT_TIMEOUT_S = 5.0
_METADATA_TIMEOUT_S = 20.0


@dataclass(frozen=True)
class DoctorConfig:
    """The locations of an app to check; without a broker, the embedded one on its port."""

    http: str
    broker: str | None
    broker_port: int
    store: str
    state: Path
    certificate: Path | None = None


@dataclass(frozen=True)
class DoctorFinding:
    """The result of a check: its description, and the command that fixes a problem."""

    check: str
    found: str
    mend: str = ""

    @property
    def ok(self) -> bool:
        """Whether the check found no problem."""
        return not self.mend


def run_checks(config: DoctorConfig) -> Iterator[DoctorFinding]:
    """Run every check, in the order in which to fix problems."""
    host, port = parse_address(config.http, "--http")
    broker_addresses = [parse_address(text, "--broker") for text in config.broker.split(",")] if config.broker else []
    yield _check_python()
    yield _check_java()
    yield from (_check_jars(set_name) for set_name in REQUIRED_JAR_SETS)
    yield _check_disk(config.state)
    yield _check_external_broker(config.broker, broker_addresses) if config.broker else _check_embedded_broker(config)
    yield _check_store(config.store)
    yield _check_drivers()
    yield _check_http(host, port, config)


def _check_python() -> DoctorFinding:
    description = f"{sys.version.split()[0]} at {sys.executable}"
    return DoctorFinding(
        "python", description, "" if sys.version_info >= _OLDEST_PYTHON else "install Python 3.11 or newer"
    )


def _check_java() -> DoctorFinding:
    try:
        java = find_java()
    except HeadraceError as error:
        return DoctorFinding("java", str(error), install_command())
    return DoctorFinding("java", f"{java.version} at {java.home}")


def _check_jars(set_name: JarSet) -> DoctorFinding:
    jars, cache = locked_jars(set_name), cache_dir()
    faults = faulty_jars(jars, cache)
    if not faults:
        return DoctorFinding(f"{set_name} jars", f"{len(jars)} in {cache}, each with the right SHA-256")
    faulty_names = ", ".join(f"{jar.file_name} is {fault}" for jar, fault in list(faults.items())[:3])
    more_text = f" and {len(faults) - 3} more" if len(faults) > 3 else ""
    return DoctorFinding(
        f"{set_name} jars",
        f"{faulty_names}{more_text} in {cache}",
        f"{sys.executable} -m headrace.embedded_servers.jars",
    )


def _check_disk(state: Path) -> DoctorFinding:
    existing_folder = next(folder for folder in (state.absolute(), *state.absolute().parents) if folder.exists())
    free_bytes = shutil.disk_usage(existing_folder).free
    description = f"{free_bytes / 1e9:.1f} GB free under {state}"
    return DoctorFinding(
        "disk", description, "" if free_bytes >= _MIN_FREE_BYTES else "free space, or choose another disk with --state"
    )


def _check_external_broker(broker: str, broker_addresses: list[tuple[str, int]]) -> DoctorFinding:
    addresses_text = ", ".join(f"{host}:{port}" for host, port in broker_addresses)
    if not any(is_listening(host, port, _CONNECT_TIMEOUT_S) for host, port in broker_addresses):
        return DoctorFinding(
            "broker", f"{addresses_text} does not answer", "start it, or omit --broker to use the embedded one"
        )
    try:
        fetch_metadata(create_admin_client(broker), broker, _METADATA_TIMEOUT_S)
        security = find_security_config(broker)
    except HeadraceError as error:
        return DoctorFinding("broker", str(error), "do as it says, and check again")
    identity_text = "" if security is None else f", and lets {security.principal} in by {security.protocol}"
    return DoctorFinding("broker", f"{addresses_text} accepts connections{identity_text}")


def _check_embedded_broker(config: DoctorConfig) -> DoctorFinding:
    if is_free(config.broker_port):
        return DoctorFinding("broker", f"port {config.broker_port} is free for the embedded one")
    broker_process = recorded_broker(config.state)
    if (
        broker_process
        and broker_process.is_alive()
        and f"(process {broker_process.pid})" in (port_holder(config.broker_port) or "")
    ):
        return DoctorFinding(
            "broker", f"the embedded one runs on port {config.broker_port} (process {broker_process.pid})"
        )
    return _port_taken("broker", HOST, config.broker_port, "--broker-port")


def _check_store(url: str) -> DoctorFinding:
    """Check the store; never shows the password, not even of a malformed URL."""
    try:
        entry = find_store(url)
        if not entry.is_shared:
            return DoctorFinding("store", entry.title)
        health = entry.load_store().check_health(url, _CONNECT_TIMEOUT_S)
    except UnknownStoreError as error:
        return DoctorFinding("store", error.problem, f"write {error.remedy}")
    except DriverMissing as error:
        return DoctorFinding("store", error.problem, error.install_command)
    return DoctorFinding("store", f"{mask_store_url(url)} {health.state}", health.remedy)


def _check_drivers() -> DoctorFinding:
    """List the installed drivers of connectors; a missing one is no problem, since only its connector needs it."""
    drivers = connector_drivers()
    installed = [extra for extra, driver in drivers.items() if driver.is_installed]
    missing = [driver.install_command for driver in drivers.values() if not driver.is_installed]
    missing_text = f"; for others: {', '.join(missing)}" if missing else ""
    return DoctorFinding("drivers", f"{', '.join(installed) or 'none'} installed{missing_text}")


def _check_http(host: str, port: int, config: DoctorConfig) -> DoctorFinding:
    if is_free(port, host):
        return DoctorFinding("http", f"port {port} on {host} is free")
    scheme, url_host = "http" if config.certificate is None else "https", f"[{host}]" if ":" in host else host
    if _is_headrace_server(InternalClient(f"{scheme}://{url_host}:{port}", config.state, config.certificate)):
        return DoctorFinding("http", f"a Headrace server answers on port {port} of {host}")
    return _port_taken("http", host, port, "--http")


def _port_taken(check: str, host: str, port: int, setting: str) -> DoctorFinding:
    holder = port_holder(port) or "another program"
    return DoctorFinding(
        check, f"port {port} on {host} is taken by {holder}", f"stop it, or choose another with {setting}"
    )


def _is_headrace_server(client: InternalClient) -> bool:
    try:
        with client.get("/v2", _CONNECT_TIMEOUT_S) as response:
            document = json.loads(response.read(10_000))
    except (OSError, ValueError, HTTPException):
        return False
    return isinstance(document, dict) and document.get("name") == "headrace"
