"""Loopback ports: which are free, and which program listens on the others."""

import errno
import random
import socket
from pathlib import Path

from headrace.errors import HeadraceError

HOST = "127.0.0.1"
_LISTEN_STATE = "0A"
_PORT_RANGE = range(20_000, 32_000)  # below the ephemeral ports of Linux, macOS and Windows
_RANDOM = random.SystemRandom()  # two processes that seed Python's generator alike would choose the same port


class PortInUseError(HeadraceError):
    """Another program already listens on our port."""


class InvalidAddressError(HeadraceError):
    """A setting that should be HOST:PORT is not."""


def parse_address(text: str, setting: str) -> tuple[str, int]:
    """The host and the port of HOST:PORT; an IPv6 host may be in brackets."""
    host, _, port = text.strip().rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise InvalidAddressError(f"{setting} {text!r} is not HOST:PORT. Write it as 127.0.0.1:8080.")
    return host.strip("[]"), int(port)


def require_free(port: int, host: str = HOST, *, setting: str) -> None:
    """Raise PortInUseError, with the listening program and the setting that chooses another port, unless it is free."""
    if not is_free(port, host):
        holder = port_holder(port) or "another program"
        raise PortInUseError(
            f"Port {port} on {host} is taken by {holder}. Stop it, or choose another port with {setting}."
        )


def is_free(port: int, host: str = HOST) -> bool:
    """Whether a server could listen on this port now."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return False
            raise
    return True


def free_port(host: str = HOST, *, excluded: int | None = None) -> int:
    """A port that is free now and not in `excluded`; never an ephemeral port, which a client could get meanwhile."""
    for port in _RANDOM.sample(_PORT_RANGE, len(_PORT_RANGE)):
        if port != excluded and is_free(port, host):
            return port
    raise PortInUseError(
        f"No port of {host} from {_PORT_RANGE[0]} to {_PORT_RANGE[-1]} is free. Stop some of what listens there."
    )


def is_listening(host: str, port: int, timeout_s: float = 2.0) -> bool:
    """Whether something accepts connections there."""
    try:
        socket.create_connection((host, port), timeout_s).close()
    except OSError:
        return False
    return True


def port_holder(port: int) -> str | None:
    """The program that listens on a port, as `name (process 123)`; None where this is not visible."""
    sockets = {f"socket:[{inode}]" for inode in _listening_inodes(port)}
    if not sockets:
        return None
    for process in Path("/proc").glob("[0-9]*"):
        if sockets & _open_files(process):
            return f"{_process_name(process)} (process {process.name})"
    return None


def _listening_inodes(port: int) -> list[str]:
    tables = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
    lines = [line for table in tables if table.exists() for line in table.read_text().splitlines()[1:]]
    rows = [line.split() for line in lines]
    return [row[9] for row in rows if row[3] == _LISTEN_STATE and int(row[1].rpartition(":")[2], 16) == port]


def _open_files(process: Path) -> set[str]:
    try:
        entries = list((process / "fd").iterdir())
    except OSError:  # it ended, or belongs to another user
        return set()
    return {_link_target(entry) for entry in entries}


def _link_target(entry: Path) -> str:
    try:
        return str(entry.readlink())
    except OSError:  # closed meanwhile
        return ""


def _process_name(process: Path) -> str:
    try:
        return (process / "comm").read_text().strip()
    except OSError:
        return "a program"
