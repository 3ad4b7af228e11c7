"""A real HTTPS server that responds well or badly, as the test sets it."""

import ipaddress
import json
import socketserver
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from headrace.embedded_servers.ports import HOST

SECRET = "T0P-s3cret"


class Listening(socketserver.ThreadingTCPServer):
    """Records each POST and responds with the configured behaviours in order; the last one repeats."""

    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False

    def __init__(self, tls: ssl.SSLContext | None, behaviours: list[Callable[[BaseHTTPRequestHandler], None]]) -> None:
        self.tls, self.behaviours = tls, behaviours
        self.bodies: list[dict[str, Any]] = []
        self.connections = 0
        self.over = threading.Event()
        super().__init__((HOST, 0), Handler)

    @property
    def url(self) -> str:
        return f"https://{HOST}:{self.server_address[1]}/services/{SECRET}"

    def finish_request(self, request: Any, client_address: Any) -> None:
        self.connections += 1
        if self.tls is None:  # accepts, and never speaks TLS
            self.over.wait(600)
            return
        try:
            with self.tls.wrap_socket(request, server_side=True) as secured:
                super().finish_request(secured, client_address)
        except OSError:
            return


class Handler(BaseHTTPRequestHandler):
    server: Listening

    def do_POST(self) -> None:
        self.server.bodies.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        behave = self.server.behaviours[0]
        if len(self.server.behaviours) > 1:
            self.server.behaviours.pop(0)
        behave(self)

    def log_message(self, *_words: Any) -> None:
        """Log nothing."""


def answer(status: int, **headers: str) -> Callable[[BaseHTTPRequestHandler], None]:
    def behave(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.end_headers()

    return behave


def hang(handler: Handler) -> None:
    handler.server.over.wait(600)


def drip(handler: Handler) -> None:
    """A byte now and then, so that no single read takes long."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
    while not handler.server.over.is_set():
        handler.wfile.write(b"x")
        time.sleep(0.05)


@contextmanager
def listening(certificate: Path | None, *behaviours: Any) -> Iterator[Listening]:
    tls = None
    if certificate is not None:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(certificate)
    server = Listening(tls, list(behaviours))
    serving = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    serving.start()
    try:
        yield server
    finally:
        server.over.set()
        server.shutdown()
        server.server_close()


def self_signed(folder: Path) -> Path:
    """A certificate of this host with its key, good for an hour."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "headrace test")])
    now = datetime.now(UTC)
    names = [x509.IPAddress(ipaddress.ip_address(HOST)), x509.DNSName("localhost")]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(minutes=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    file = folder / "certificate.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM) + private)
    return file
