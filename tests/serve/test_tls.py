"""TLS: a real handshake, what cannot be used refused at once, and own parts know their server by its certificate."""

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
from headrace.local.ports import HOST
from headrace.questions import ServerRefused, ServerUnreachable
from headrace.serve import listen, tls
from headrace.serve.access import Access
from headrace.serve.answers import Answer
from headrace.serve.connection import LARGEST_HEAD
from headrace.serve.door import Door
from headrace.serve.http import LARGEST_BODY, Request, get, post
from headrace.serve.scopes import Scope
from headrace.serve.tls import BadTls, own_tls, server_tls
from headrace.watch.scrape import ask_metrics
from tests.serve.guarding import Guarded, guarded
from tests.serve.predicting import CardSpend
from tests.serve.serving import answering
from tests.waiting import SOCKET_S, wait_until
from tests.watch.listening import self_signed

LARGE = b"x" * (4 << 20)


async def large(_request: Request) -> Answer:
    return Answer(200, LARGE)


async def echo(request: Request) -> Answer:
    return Answer(200, request.body)


def access_of(folder: Path) -> Access:
    """A certificate and its key, as one file each."""
    folder.mkdir(exist_ok=True)
    both = self_signed(folder)
    pem = both.read_text()
    beginning = pem.index("-----BEGIN PRIVATE KEY")
    (folder / "key.pem").write_text(pem[beginning:])
    both.write_text(pem[:beginning])
    return Access(both, folder / "key.pem")


@pytest.fixture(scope="module")
def access(tmp_path_factory: pytest.TempPathFactory) -> Access:
    return access_of(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def server(access: Access, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    with guarded(tmp_path_factory.mktemp("guarded"), access, tls=server_tls(access)) as server:
        yield server


def trusting(access: Access) -> ssl.SSLContext:
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


def test_a_client_that_trusts_the_certificate_is_answered(server: Guarded, access: Access) -> None:
    with connected(server.ask.port, trusting(access)) as client:
        assert client.version() in {"TLSv1.2", "TLSv1.3"}
        for _ in range(3):
            client.sendall(b"GET /v2/health/live HTTP/1.1\r\nhost: localhost\r\n\r\n")
            assert client.recv(1 << 16).startswith(b"HTTP/1.1 200 ")


def features_by(kind: type, url: str, **how: Any) -> Any:
    """What a client of either kind is told of one card."""
    if kind is hr.Client:
        return hr.Client(url, **how).features(CardSpend, ["c1"])

    async def asked() -> Any:
        async with hr.AsyncClient(url, **how) as client:
            return await client.features(CardSpend, ["c1"])

    return asyncio.run(asked())


@pytest.mark.parametrize("kind", [hr.Client, hr.AsyncClient])
def test_the_python_clients_ask_with_their_token(
    server: Guarded, access: Access, monkeypatch: pytest.MonkeyPatch, kind: type
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
    server: Guarded, access: Access, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HEADRACE_TOKEN", raising=False)
    url, state = f"https://{HOST}:{server.ask.port}", server.guard._state
    assert ask_metrics(Door(url, state, access.tls_cert)) is not None
    assert ask_metrics(Door(url.replace(HOST, "127.0.0.9"), state, access.tls_cert)) is None  # nobody listens there
    assert ask_metrics(Door(url, state, access_of(tmp_path).tls_cert)) is None
    assert ask_metrics(Door(url, state)) is None


def test_a_session_over_tls_is_never_sent_without(server: Guarded, access: Access) -> None:
    body = f"token={server.tokens[Scope.READ]}".encode()
    with connected(server.ask.port, trusting(access)) as client:
        client.sendall(b"POST /login HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
        assert b"; Secure\r\n" in client.recv(1 << 16)


@pytest.mark.parametrize(
    "sent", [b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n", b"\x16\x03\x01\x00\x05hello", b"\x00" * 400]
)
def test_what_is_no_handshake_gets_no_answer(server: Guarded, access: Access, sent: bytes) -> None:
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


def test_slow_handshakes_and_slow_requests_are_cut_off(access: Access, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listen, "HANDSHAKE_SECONDS", 0.2)
    monkeypatch.setattr(listen, "EXCHANGE_SECONDS", 0.2)
    monkeypatch.setattr(listen, "TICKS_A_SWEEP", 1)
    with answering([get("/", large)], tls=server_tls(access)) as port:
        for begun in (b"", b"\x16\x03\x01\x02\x00\x01"):
            with socket.create_connection((HOST, port), timeout=SOCKET_S) as slow:
                slow.sendall(begun)
                assert b"HTTP" not in until_closed(slow)
        monkeypatch.setattr(listen, "HANDSHAKE_SECONDS", SOCKET_S)
        with connected(port, trusting(access)) as slow:
            slow.sendall(b"GET / HT")
            assert until_closed(slow) == b""


def test_what_is_large_goes_through_and_what_is_too_large_does_not(access: Access) -> None:
    with answering([get("/large", large), post("/echo", echo)], tls=server_tls(access)) as port:
        with connected(port, trusting(access)) as client:
            client.sendall(b"GET /large HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
            assert until_closed(client).endswith(b"\r\n\r\n" + LARGE)
        head = b"POST /echo HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: %d\r\n\r\n"
        for size, status in ((LARGEST_BODY, b"200"), (LARGEST_BODY + 1, b"413")):
            with connected(port, trusting(access)) as client:
                client.sendall(head % size)
                client.sendall(b" " * (size if status == b"200" else 1))
                assert client.recv(1 << 16).split(b" ", 2)[1] == status
        with connected(port, trusting(access)) as client:
            client.sendall(b"GET / HTTP/1.1\r\nx: " + b"y" * (LARGEST_HEAD + 1))
            assert client.recv(1 << 16).startswith(b"HTTP/1.1 400 ")


def test_a_renewed_certificate_is_taken_without_a_restart_and_half_of_a_pair_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tls, "LOOK_SECONDS", 0.02)
    access, new = access_of(tmp_path), access_of(tmp_path / "new")
    context = server_tls(access)
    assert context is not None
    before = presented(context)
    with following(context, access):
        shutil.copy(str(new.tls_cert), str(access.tls_cert))
        wait_until(lambda: "the certificate in use is kept" in caplog.text, 10, "half of a pair to be refused")
        assert presented(context) == before
        shutil.copy(str(new.tls_key), str(access.tls_key))
        wait_until(lambda: presented(context) != before, 10, "the new certificate")
    with answering([post("/echo", echo)], tls=context) as port, connected(port, trusting(new)) as client:
        assert client.getpeercert(binary_form=True) == _certificate(new)


def test_every_handshake_finds_a_whole_pair_while_files_are_renewed_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls, "LOOK_SECONDS", 0.001)
    pairs = [access_of(tmp_path / name) for name in ("one", "other")]
    access = Access(tmp_path / "cert.pem", tmp_path / "key.pem")
    _copy(pairs[0], access)
    context = server_tls(access)
    assert context is not None
    both = {_certificate(pair) for pair in pairs}
    with following(context, access):
        for number in range(40):
            renewing = threading.Thread(target=_copy, args=(pairs[number % 2], access))
            renewing.start()
            assert {presented(context) for _ in range(5)} <= both
            renewing.join()
        wait_until(lambda: presented(context) == _certificate(pairs[1]), 10, "the last certificate")


def _certificate(pair: Access) -> bytes:
    assert pair.tls_cert is not None
    return ssl.PEM_cert_to_DER_cert(pair.tls_cert.read_text())


def _copy(pair: Access, into: Access) -> None:
    shutil.copy(str(pair.tls_cert), str(into.tls_cert))
    shutil.copy(str(pair.tls_key), str(into.tls_key))


@contextmanager
def following(context: ssl.SSLContext, access: Access) -> Iterator[None]:
    """Files that are looked at beside the test."""
    over = threading.Event()
    thread = threading.Thread(target=asyncio.run, args=(followed(context, access, over),))
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


async def followed(context: ssl.SSLContext, access: Access, over: threading.Event) -> None:
    following = asyncio.create_task(tls.follow_files(context, access))
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


def test_a_certificate_or_a_key_that_cannot_be_used_is_refused_with_a_sentence(access: Access, tmp_path: Path) -> None:
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
        (access.tls_cert, locked, "locked by a password"),
    ]:
        with pytest.raises(BadTls, match=words):
            server_tls(Access(cert, private))
    for file in (nonsense, tmp_path / "missing.pem"):
        with pytest.raises(BadTls, match="cannot be read"):
            own_tls(file)
