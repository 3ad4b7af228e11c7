"""What an app needs from this machine, checked one by one, each with the command that mends it."""

import json
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

import redis

from headrace.errors import HeadraceError
from headrace.local.broker import recorded_broker
from headrace.local.jars import NEEDED, JarSet, cache_dir, faulty_jars, locked_jars
from headrace.local.java import find_java, install_command
from headrace.local.ports import HOST, answers, holder_of, is_free, parse_address
from headrace.log.connect import admin_client, metadata
from headrace.log.security import security_of
from headrace.serve.door import Door
from headrace.store.writes import is_cluster, server_url

_OLDEST_PYTHON = (3, 11)
_LEAST_FREE_BYTES = 2 << 30
_ANSWER_LIMIT_S = 5.0
_KNOCK_LIMIT_S = 20.0


@dataclass(frozen=True)
class Place:
    """Where an app would run; without a broker of the user's, the embedded one on its port."""

    http: str
    broker: str | None
    broker_port: int
    store: str
    state: Path
    certificate: Path | None = None


@dataclass(frozen=True)
class Finding:
    """One check: what was found, and the command that mends it where it is wrong."""

    check: str
    found: str
    mend: str = ""

    @property
    def ok(self) -> bool:
        """Whether nothing has to be done."""
        return not self.mend


def examine(place: Place) -> Iterator[Finding]:
    """Every check, in the order in which to mend them."""
    host, port = parse_address(place.http, "--http")
    brokers = [parse_address(text, "--broker") for text in place.broker.split(",")] if place.broker else []
    yield _python()
    yield _java()
    yield from (_jars(set_name) for set_name in NEEDED)
    yield _disk(place.state)
    yield _given_broker(place.broker, brokers) if place.broker else _embedded_broker(place)
    yield _store(place.store)
    yield _http(host, port, place)


def _python() -> Finding:
    found = f"{sys.version.split()[0]} at {sys.executable}"
    return Finding("python", found, "" if sys.version_info >= _OLDEST_PYTHON else "install Python 3.11 or newer")


def _java() -> Finding:
    try:
        java = find_java()
    except HeadraceError as error:
        return Finding("java", str(error), install_command())
    return Finding("java", f"{java.version} at {java.home}")


def _jars(set_name: JarSet) -> Finding:
    jars, cache = locked_jars(set_name), cache_dir()
    faults = faulty_jars(jars, cache)
    if not faults:
        return Finding(f"{set_name} jars", f"{len(jars)} in {cache}, each with the right SHA-256")
    named = ", ".join(f"{jar.file_name} is {fault}" for jar, fault in list(faults.items())[:3])
    more = f" and {len(faults) - 3} more" if len(faults) > 3 else ""
    return Finding(f"{set_name} jars", f"{named}{more} in {cache}", f"{sys.executable} -m headrace.local.jars")


def _disk(state: Path) -> Finding:
    existing = next(folder for folder in (state.absolute(), *state.absolute().parents) if folder.exists())
    free = shutil.disk_usage(existing).free
    found = f"{free / 1e9:.1f} GB free under {state}"
    return Finding("disk", found, "" if free >= _LEAST_FREE_BYTES else "make room, or choose another disk with --state")


def _given_broker(broker: str, brokers: list[tuple[str, int]]) -> Finding:
    named = ", ".join(f"{host}:{port}" for host, port in brokers)
    if not any(answers(host, port, _ANSWER_LIMIT_S) for host, port in brokers):
        return Finding("broker", f"{named} does not answer", "start it, or leave out --broker to use the embedded one")
    try:
        metadata(admin_client(broker), broker, _KNOCK_LIMIT_S)
        security = security_of(broker)
    except HeadraceError as refused:
        return Finding("broker", str(refused), "do as it says, and look again")
    known = "" if security is None else f", and lets {security.who} in by {security.protocol}"
    return Finding("broker", f"{named} accepts connections{known}")


def _embedded_broker(place: Place) -> Finding:
    if is_free(place.broker_port):
        return Finding("broker", f"port {place.broker_port} is free for the embedded one")
    running = recorded_broker(place.state)
    if running and running.alive() and f"(process {running.pid})" in (holder_of(place.broker_port) or ""):
        return Finding("broker", f"the embedded one runs on port {place.broker_port} (process {running.pid})")
    return _taken("broker", HOST, place.broker_port, "--broker-port")


def _store(store: str) -> Finding:
    if store == "memory":
        return Finding("store", "the server's own memory")
    # Never the password, not even a part of one that is not written as it should be.
    place = re.split("[/?]", store.partition("://")[2].rpartition("@")[2])[0]
    shown = f"{store.partition(':')[0]}://{place}"
    try:
        _ = urlsplit(store).port
    except ValueError:
        return Finding("store", "--store is no URL", "write redis://USER:PASSWORD@HOST:PORT, with %2F for a / in them")
    if store.startswith("cassandra://"):
        return _cassandra(urlsplit(store), shown)
    try:
        with redis.Redis.from_url(server_url(store), socket_timeout=_ANSWER_LIMIT_S) as client:
            client.ping()
            stands = not is_cluster(store) or client.cluster("INFO").get("cluster_state") == "ok"
    except (redis.RedisError, ValueError, OSError) as error:
        reason = str(error).replace(store, shown)
        return Finding("store", f"{shown} does not answer: {reason}", "start it, or use --store memory")
    if not stands:
        return Finding("store", f"{shown} answers, and its cluster does not stand", "see redis-cli cluster info")
    return Finding("store", f"{shown} answers")


def _cassandra(url: SplitResult, shown: str) -> Finding:
    hosts, port = (url.hostname or "").split(","), url.port or 9042
    if any(answers(host, port, _ANSWER_LIMIT_S) for host in hosts):
        return Finding("store", f"{shown} accepts connections")
    return Finding("store", f"{shown} does not answer", "start it, or use --store memory")


def _http(host: str, port: int, place: Place) -> Finding:
    if is_free(port, host):
        return Finding("http", f"port {port} on {host} is free")
    scheme, written = "http" if place.certificate is None else "https", f"[{host}]" if ":" in host else host
    if _is_headrace(Door(f"{scheme}://{written}:{port}", place.state, place.certificate)):
        return Finding("http", f"a Headrace server answers on port {port} of {host}")
    return _taken("http", host, port, "--http")


def _taken(check: str, host: str, port: int, setting: str) -> Finding:
    holder = holder_of(port) or "another program"
    return Finding(check, f"port {port} on {host} is taken by {holder}", f"stop it, or choose another with {setting}")


def _is_headrace(door: Door) -> bool:
    try:
        with door.open("/v2", _ANSWER_LIMIT_S) as response:
            described = json.loads(response.read(10_000))
    except (OSError, ValueError, HTTPException):
        return False
    return isinstance(described, dict) and described.get("name") == "headrace"
