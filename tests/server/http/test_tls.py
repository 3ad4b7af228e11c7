"""TLS: real handshakes, unusable certificates rejected at start, and parts verify their server's certificate."""

import asyncio
import shutil
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization

import headrace as hr
from headrace.client.protocol import ServerRefused, ServerUnreachable
from headrace.embedded_servers.ports import HOST
from headrace.server.auth.access_config import AccessConfig
from headrace.server.auth.internal_client import InternalClient
from headrace.server.auth.scopes import Scope
from headrace.server.http import listener, tls
from headrace.server.http.connection import MAX_HEAD_BYTES
from headrace.server.http.responses import Response
from headrace.server.http.routing import MAX_BODY_BYTES, Request, get_route, post_route
from headrace.server.http.tls import TlsConfigError, pinned_tls_context, server_tls_context
from headrace.telemetry.values.metrics_scraper import scrape_metrics
from tests.server.prediction_app import CardSpend
from tests.server.secured_server import Guarded, guarded
from tests.server.server_thread import answering
from tests.telemetry.https_server import self_signed
from tests.waiting import SOCKET_S, wait_until

LARGE = b"x" * (4 << 20)


async def large(_request: Request) -> Response:
    return Response(200, LARGE)


async def echo(request: Request) -> Response:
    return Response(200, request.body)


def access_of(folder: Path) -> AccessConfig:
    """A certificate and its key, as one file each."""
    folder.mkdir(exist_ok=True)
    both = self_signed(folder)
    pem = both.read_text()
    beginning = pem.index("-----BEGIN PRIVATE KEY")
    (folder / "key.pem").write_text(pem[beginning:])
    both.write_text(pem[:beginning])
    return AccessConfig(both, folder / "key.pem")


@pytest.fixture(scope="module")
def access(tmp_path_factory: pytest.TempPathFactory) -> AccessConfig:
    return access_of(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def server(access: AccessConfig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    with guarded(tmp_path_factory.mktemp("guarded"), access, tls=server_tls_context(access)) as server:
        yield server


def trusting(access: AccessConfig) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(access.tls_cert))


@contextmanager
def connected(port: int, context: ssl.SSLContext, name: str = "localhost") -> Iterator[ssl.SSLSocket]:
    with (
        socket.create_connection((HOST, port), timeout=SOCKET_S) as plain,
        context.wrap_socket(plain, server_hostname=name) as one,
    ):
        yield one


def until_closed(client: socket.socket) -> bytes:
    answer = b""
    try:
        while piece := client.recv(1 << 16):
            answer += piece
    except (ConnectionResetError, ssl.SSLError):
        pass
    return answer


def test_a_client_that_trusts_the_certificate_is_answered(server: Guarded, access: AccessConfig) -> None:
    with connected(server.ask.port, trusting(access)) as client:
        assert client.version() in {"TLSv1.2", "TLSv1.3"}
        for _ in range(3):
            client.sendall(b"GET /v2/health/live HTTP/1.1\r\nhost: localhost\r\n\r\n")
            assert client.recv(1 << 16).startswith(b"HTTP/1.1 200 ")


def features_by(kind: type, url: str, **how: Any) -> Any:
    """One card's features, from both kinds of client."""
    if kind is hr.Client:
        return hr.Client(url, **how).features(CardSpend, ["c1"])

    async def asked() -> Any:
        async with hr.AsyncClient(url, **how) as client:
            return await client.features(CardSpend, ["c1"])

    return asyncio.run(asked())


@pytest.mark.parametrize("kind", [hr.Client, hr.AsyncClient])
def test_the_python_clients_ask_with_their_token(
    server: Guarded, access: AccessConfig, monkeypatch: pytest.MonkeyPatch, kind: type
) -> None:
    monkeypatch.delenv("HEADRACE_TOKEN", raising=False)
    url, ca = f"https://localhost:{server.ask.port}", access.tls_cert
    token = server.tokens[Scope.READ]
    assert features_by(kind, url, token=token, ca=ca)[0].payments_1h == 10
    with pytest.raises(ServerRefused, match="wants a token") as refused:
        features_by(kind, url, ca=ca)
    assert refused.value.status == 401
    monkeypatch.setenv("HEADRACE_TOKEN", token)
    assert features_by(kind, url, ca=ca)[0].payments_1h == 10
    with pytest.raises(ServerUnreachable, match="certificate verify failed"):
        features_by(kind, url)


def test_own_parts_know_the_server_by_this_very_certificate(
    server: Guarded, access: AccessConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HEADRACE_TOKEN", raising=False)
    url, state = f"https://{HOST}:{server.ask.port}", server.guard._state
    assert scrape_metrics(InternalClient(url, state, access.tls_cert)) is not None
    assert (
        scrape_metrics(InternalClient(url.replace(HOST, "127.0.0.9"), state, access.tls_cert)) is None
    )  # no server listens there
    assert scrape_metrics(InternalClient(url, state, access_of(tmp_path).tls_cert)) is None
    assert scrape_metrics(InternalClient(url, state)) is None


def test_a_session_over_tls_is_never_sent_without(server: Guarded, access: AccessConfig) -> None:
    body = f"token={server.tokens[Scope.READ]}".encode()
    with connected(server.ask.port, trusting(access)) as client:
        client.sendall(b"POST /login HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
        assert b"; Secure\r\n" in client.recv(1 << 16)


@pytest.mark.parametrize(
    "sent", [b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n", b"\x16\x03\x01\x00\x05hello", b"\x00" * 400]
)
def test_what_is_no_handshake_gets_no_answer(server: Guarded, access: AccessConfig, sent: bytes) -> None:
    with socket.create_connection((HOST, server.ask.port), timeout=SOCKET_S) as client:
        client.sendall(sent)
        assert b"HTTP" not in until_closed(client)
    with connected(server.ask.port, trusting(access)) as client:
        client.sendall(b"GET /ping HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert client.recv(1 << 16).startswith(b"HTTP/1.1 200 ")


def test_old_versions_of_tls_are_refused(server: Guarded) -> None:
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
    old.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1"):
        old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    with pytest.raises((ssl.SSLError, ConnectionError)), connected(server.ask.port, old):
        pass


def test_slow_handshakes_and_slow_requests_are_cut_off(access: AccessConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "TLS_HANDSHAKE_SECONDS", 0.2)
    monkeypatch.setattr(listener, "TRANSFER_SECONDS", 0.2)
    monkeypatch.setattr(listener, "TICKS_PER_SWEEP", 1)
    with answering([get_route("/", large)], tls=server_tls_context(access)) as port:
        for begun in (b"", b"\x16\x03\x01\x02\x00\x01"):
            with socket.create_connection((HOST, port), timeout=SOCKET_S) as slow:
                slow.sendall(begun)
                assert b"HTTP" not in until_closed(slow)
        monkeypatch.setattr(listener, "TLS_HANDSHAKE_SECONDS", SOCKET_S)
        with connected(port, trusting(access)) as slow:
            slow.sendall(b"GET / HT")
            assert until_closed(slow) == b""


def test_what_is_large_goes_through_and_what_is_too_large_does_not(access: AccessConfig) -> None:
    with answering([get_route("/large", large), post_route("/echo", echo)], tls=server_tls_context(access)) as port:
        with connected(port, trusting(access)) as client:
            client.sendall(b"GET /large HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
            assert until_closed(client).endswith(b"\r\n\r\n" + LARGE)
        head = b"POST /echo HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: %d\r\n\r\n"
        for size, status in ((MAX_BODY_BYTES, b"200"), (MAX_BODY_BYTES + 1, b"413")):
            with connected(port, trusting(access)) as client:
                client.sendall(head % size)
                client.sendall(b" " * (size if status == b"200" else 1))
                assert client.recv(1 << 16).split(b" ", 2)[1] == status
        with connected(port, trusting(access)) as client:
            client.sendall(b"GET / HTTP/1.1\r\nx: " + b"y" * (MAX_HEAD_BYTES + 1))
            assert client.recv(1 << 16).startswith(b"HTTP/1.1 400 ")


def test_a_renewed_certificate_is_taken_without_a_restart_and_half_of_a_pair_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tls, "POLL_SECONDS", 0.02)
    access, new = access_of(tmp_path), access_of(tmp_path / "new")
    context = server_tls_context(access)
    assert context is not None
    before = presented(context)
    with following(context, access):
        shutil.copy(str(new.tls_cert), str(access.tls_cert))
        wait_until(lambda: "the current one stays in use" in caplog.text, 10, "half of a pair to be refused")
        assert presented(context) == before
        shutil.copy(str(new.tls_key), str(access.tls_key))
        wait_until(lambda: presented(context) != before, 10, "the new certificate")
    with answering([post_route("/echo", echo)], tls=context) as port, connected(port, trusting(new)) as client:
        assert client.getpeercert(binary_form=True) == _certificate(new)


def test_every_handshake_finds_a_whole_pair_while_files_are_renewed_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls, "POLL_SECONDS", 0.001)
    pairs = [access_of(tmp_path / name) for name in ("one", "other")]
    access = AccessConfig(tmp_path / "cert.pem", tmp_path / "key.pem")
    _copy(pairs[0], access)
    context = server_tls_context(access)
    assert context is not None
    both = {_certificate(pair) for pair in pairs}
    with following(context, access):
        for number in range(40):
            renewing = threading.Thread(target=_copy, args=(pairs[number % 2], access))
            renewing.start()
            assert {presented(context) for _ in range(5)} <= both
            renewing.join()
        wait_until(lambda: presented(context) == _certificate(pairs[1]), 10, "the last certificate")


def _certificate(pair: AccessConfig) -> bytes:
    assert pair.tls_cert is not None
    return ssl.PEM_cert_to_DER_cert(pair.tls_cert.read_text())


def _copy(pair: AccessConfig, into: AccessConfig) -> None:
    shutil.copy(str(pair.tls_cert), str(into.tls_cert))
    shutil.copy(str(pair.tls_key), str(into.tls_key))


@contextmanager
def following(context: ssl.SSLContext, access: AccessConfig) -> Iterator[None]:
    """Files that are looked at beside the test."""
    over = threading.Event()
    thread = threading.Thread(target=asyncio.run, args=(followed(context, access, over),))
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


async def followed(context: ssl.SSLContext, access: AccessConfig, over: threading.Event) -> None:
    following = asyncio.create_task(tls.watch_certificate(context, access))
    await asyncio.to_thread(over.wait)
    following.cancel()


def presented(context: ssl.SSLContext) -> bytes:
    """The certificate that a server of this context shows."""
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    one = client.wrap_bio(to_client, to_server)
    other = context.wrap_bio(to_server, to_client, server_side=True)
    for side in (one, other) * 3:
        with suppress(ssl.SSLWantReadError):
            side.do_handshake()
    shown = one.getpeercert(binary_form=True)
    assert shown is not None
    return shown


def test_a_certificate_or_a_key_that_cannot_be_used_is_refused_with_a_sentence(
    access: AccessConfig, tmp_path: Path
) -> None:
    other, locked, nonsense = access_of(tmp_path), tmp_path / "locked.pem", tmp_path / "nonsense.pem"
    assert access.tls_key is not None
    key = serialization.load_pem_private_key(access.tls_key.read_bytes(), None)
    password = serialization.BestAvailableEncryption(b"word")
    locked.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, password))
    nonsense.write_text("nonsense")
    for cert, private, words in [
        (access.tls_cert, None, "go together"),
        (None, access.tls_key, "go together"),
        (access.tls_cert, other.tls_key, "cannot be used"),
        (access.tls_cert, nonsense, "cannot be used"),
        (nonsense, access.tls_key, "cannot be used"),
        (access.tls_cert, tmp_path / "missing.pem", "No such file"),
        (access.tls_cert, locked, "encrypted with a password"),
    ]:
        with pytest.raises(TlsConfigError, match=words):
            server_tls_context(AccessConfig(cert, private))
    for file in (nonsense, tmp_path / "missing.pem"):
        with pytest.raises(TlsConfigError, match="cannot be read"):
            pinned_tls_context(file)
