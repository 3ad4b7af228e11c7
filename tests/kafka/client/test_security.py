"""A secured broker is reached with every mechanism; a failed authentication is reported with its cause."""

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

import headrace as hr
from headrace.cli import main
from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.kafka.client.connection_diagnosis import AuthenticationFailed, BrokerUnreachable, CertificateRejected
from headrace.kafka.client.security import (
    SECURITY_FILE_VARIABLE,
    SecurityConfig,
    SecurityConfigError,
    file_permission_warning,
    find_security_config,
    read_security_file,
)
from headrace.kafka.consumers.offset_range import read_offset_range
from headrace.kafka.offsets import OffsetClient
from headrace.kafka.producer.producer import Producer
from headrace.kafka.topics import ensure_topics
from tests.kafka.secured_broker import CANARY, Guarded

MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each test sets its own credentials; removes those that a command has put into its environment."""
    monkeypatch.setenv(SECURITY_FILE_VARIABLE, "")
    read_security_file.cache_clear()
    yield
    read_security_file.cache_clear()


@pytest.fixture
def say(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    return lambda file: monkeypatch.setenv(SECURITY_FILE_VARIABLE, str(file))


def through(broker: str) -> list[bytes | None]:
    """What was sent to a topic of our own, read again."""
    stream = hr.Stream(f"s{uuid.uuid4().hex}", schema="id string, at timestamp", id="id", key="id", time="at")
    ensure_topics(broker, [stream])
    with Producer(broker) as producer:
        producer.send(stream.name, b"in", key="k")
    offsets = OffsetClient(broker)
    found = read_offset_range(
        broker, offsets.topic_start_offsets([stream.name]), offsets.topic_end_offsets([stream.name])
    )
    return [record.value for record in found]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_who_has_the_password_comes_in(guarded: Guarded, say: Callable[[Path], None], mechanism: str) -> None:
    say(guarded.by_password(mechanism))
    assert through(guarded.address) == [b"in"]


def test_without_tls_the_password_is_asked_for_all_the_same(guarded: Guarded, say: Callable[[Path], None]) -> None:
    with pytest.raises(BrokerUnreachable, match=r"accepts connections but answers no request.*--broker-security"):
        OffsetClient(guarded.openly, timeout=3).end_offset_list("payments")
    words = {"mechanism": "PLAIN", "username": "shop", "password": CANARY}
    say(guarded.security("openly", guarded.openly, tls=False, **words))
    assert through(guarded.openly) == [b"in"]


def test_who_is_given_a_token_comes_in(guarded: Guarded, say: Callable[[Path], None]) -> None:
    say(guarded.by_token())
    assert through(guarded.address) == [b"in"]
    assert guarded.issuer.given


def test_who_is_given_no_token_is_told(guarded: Guarded, say: Callable[[Path], None]) -> None:
    say(guarded.by_token(secret="canary-of-another"))
    with pytest.raises(AuthenticationFailed, match=r"rejects shop \(OAUTHBEARER\)") as refused:
        OffsetClient(guarded.address, timeout=5).end_offset_list("payments")
    assert "canary" not in str(refused.value)


def test_who_has_a_certificate_comes_in(guarded: Guarded, say: Callable[[Path], None]) -> None:
    certificate, key = guarded.authority.sign("shop")
    words = {"ca": "trusted.pem", "certificate": certificate.name, "key": key.name}
    say(guarded.security("mutual", guarded.mutual, **words))
    assert through(guarded.mutual)[0] == b"in"


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_wrong_password_is_said_and_not_shown(guarded: Guarded, say: Callable[[Path], None], mechanism: str) -> None:
    say(guarded.by_password(mechanism, password="canary-of-another"))
    with pytest.raises(AuthenticationFailed, match=rf"rejects shop \({mechanism}\): wrong name, secret") as refused:
        OffsetClient(guarded.address).end_offset_list("payments")
    assert "canary" not in str(refused.value)


def test_a_broker_signed_by_somebody_else_is_not_trusted(guarded: Guarded, say: Callable[[Path], None]) -> None:
    say(guarded.by_password("PLAIN", ca="stranger.pem"))
    with pytest.raises(CertificateRejected, match=r"not signed by .*stranger.pem"):
        OffsetClient(guarded.address).end_offset_list("payments")


def test_a_certificate_out_of_date_is_said(guarded: Guarded, say: Callable[[Path], None]) -> None:
    say(guarded.security("expired", guarded.expired, ca="trusted.pem"))
    with pytest.raises(CertificateRejected, match=r"is out of date .*expired"):
        OffsetClient(guarded.expired).end_offset_list("payments")


def test_a_broker_by_another_name_than_its_certificates_is_said(guarded: Guarded, say: Callable[[Path], None]) -> None:
    address = f"localhost:{guarded.broker.port}"
    words = {"mechanism": "PLAIN", "username": "shop", "password": CANARY, "ca": "trusted.pem"}
    say(guarded.security("name", address, **words))
    with pytest.raises(CertificateRejected, match="for another name than 'localhost'"):
        OffsetClient(address).end_offset_list("payments")


def test_a_missing_certificate_is_said(guarded: Guarded, say: Callable[[Path], None]) -> None:
    say(guarded.security("none", guarded.mutual, ca="trusted.pem"))
    with pytest.raises(AuthenticationFailed, match="wants a certificate of ours"):
        OffsetClient(guarded.mutual).end_offset_list("payments")


def test_a_broker_of_which_nothing_is_said_is_told_nothing(guarded: Guarded, say: Callable[[Path], None]) -> None:
    say(guarded.security("other", "kafka.example:9093", mechanism="PLAIN", username="shop", password=CANARY))
    with pytest.raises(AuthenticationFailed, match=r"wants TLS, and the file .* configures only kafka.example:9093"):
        OffsetClient(guarded.address, timeout=3).end_offset_list("payments")


def test_tls_to_a_broker_without_it_is_said(
    broker: EmbeddedBroker, guarded: Guarded, say: Callable[[Path], None]
) -> None:
    say(guarded.security("plain", broker.address, ca="trusted.pem"))
    with pytest.raises(BrokerUnreachable, match="does not speak TLS"):
        OffsetClient(broker.address, timeout=3).end_offset_list("payments")


def test_the_doctor_looks_behind_the_port(guarded: Guarded) -> None:
    good, bad = guarded.by_password("SCRAM-SHA-512"), guarded.by_password("SCRAM-SHA-512", password="canary-of-another")
    asked = ["doctor", "--broker", guarded.address, "--broker-security"]
    said = CliRunner().invoke(main, [*asked, str(good)]).output
    assert f"{guarded.address} accepts connections, and lets shop (SCRAM-SHA-512) in by SASL_SSL" in said
    refused = CliRunner().invoke(main, [*asked, str(bad)])
    assert refused.exit_code == 1
    assert "rejects shop (SCRAM-SHA-512)" in refused.output
    assert "canary" not in said + refused.output


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("password = 'x'", r"password belongs to no broker"),
        ("", "nothing belongs to no broker"),
        ("['k:1'\n", "is no TOML"),
        ("['k:1']\nmechanism = 'GSSAPI'", "'GSSAPI' is not known. Write one of PLAIN"),
        ("['k:1']\nmechanism = 'PLAIN'\nusername = 'me'", "password is missing with mechanism PLAIN"),
        ("['k:1']\npassword = 'hush'", "password means nothing without a mechanism"),
        ("['k:1']\ncertificate = 'x.pem'", "certificate and key come together"),
        ("['k:1']\nca = 'nowhere.pem'", "there is no file .*nowhere.pem"),
        ("['k:1']\ntls = false\nca = 'x.pem'", "tls = false, and yet certificates"),
        ("['k:1']\ntls = 'no'", "tls is no true or false"),
        ("['k:1']\nmechanism = 'PLAIN'\nusername = 'me'\npassword = 5", "password is no text"),
        ("['k:1']\nmechanism = 'PLAIN'\nusername = 'me'\npassword = 'env:NOT_SET'", "the variable NOT_SET is not set"),
        ("['k:1']\nmechanism = 'PLAIN'\nusername = 'me'\npassword = 'file:/nowhere'", "/nowhere cannot be read"),
    ],
)
def test_what_is_written_wrong_is_said_and_no_secret_repeated(tmp_path: Path, written: str, problem: str) -> None:
    file = tmp_path / "broker.toml"
    file.write_text(written)
    with pytest.raises(hr.HeadraceError, match=problem) as bad:
        read_security_file(file)
    assert "hush" not in str(bad.value)


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(SecurityConfigError, match="cannot be read: No such file"):
        read_security_file(tmp_path / "nowhere.toml")


def test_secrets_come_from_the_environment_and_from_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, say: Callable[[Path], None]
) -> None:
    (tmp_path / "secret").write_text("hush\n")
    file = tmp_path / "broker.toml"
    words = "mechanism = 'PLAIN'\nusername = 'me'\npassword = "
    file.write_text(f"['k:1,k:2']\n{words}'file:{tmp_path}/secret'\n['l:1']\n{words}'env:L_PASSWORD'\n")
    monkeypatch.setenv("L_PASSWORD", "whisper")
    say(file)
    for broker, password in (("k:1", "hush"), ("k:2,k:1", "hush"), ("l:1", "whisper")):
        found = find_security_config(broker)
        assert isinstance(found, SecurityConfig)
        assert found.password == password
        assert password not in repr(found)
    assert find_security_config("k:1,m:1") is None, "an address that nothing is said of is told nothing"
    assert file_permission_warning(file) is None, "it has no secret"


def test_a_file_of_secrets_that_others_may_read_is_warned_of(tmp_path: Path) -> None:
    file = tmp_path / "broker.toml"
    file.write_text("['k:1']\nmechanism = 'PLAIN'\nusername = 'me'\npassword = 'hush'")
    file.chmod(0o640)
    warned = file_permission_warning(file)
    assert warned is not None
    assert f"chmod 600 {file}" in warned
    file.chmod(0o600)
    assert file_permission_warning(file) is None
