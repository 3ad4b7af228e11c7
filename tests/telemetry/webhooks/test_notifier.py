"""Notifications over real HTTPS: delivered, retried, given up; never blocking, never to a forbidden address."""

import socket
from pathlib import Path
from typing import Any

import pytest

import headrace as hr
from headrace.embedded_servers.ports import HOST, free_port
from headrace.telemetry.alerts.alert_state import AlertState, Phase
from headrace.telemetry.alerts.notifications import AlertChange, Notification
from headrace.telemetry.webhooks.allowed_addresses import (
    AddressRefused,
    BadWebhook,
    is_allowed,
    parse_networks,
    require_https,
    resolve_allowed_addresses,
)
from headrace.telemetry.webhooks.notifier import MAX_WAITING, WebhookNotifier
from headrace.telemetry.webhooks.webhook_client import RetryPolicy
from tests.telemetry.https_server import SECRET, Listening, answer, drip, hang, listening, self_signed
from tests.waiting import wait_until

QUICK = RetryPolicy(attempt_seconds=0.5, max_attempts=3, first_pause_seconds=0.01)  # for a server that never responds
PATIENT = RetryPolicy(attempt_seconds=60, max_attempts=3, first_pause_seconds=0.01)  # for a server that does
alert = hr.Alert(
    "lag <&> more", on=hr.metric("headrace_lag", stream="payments"), above=10, why="Events wait.", run="headrace doctor"
)
notification = Notification(
    "stream payments", (AlertChange(alert, AlertState(0, 0, Phase.FIRING, 12.0, None, (0,)), "12"),)
)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return self_signed(tmp_path_factory.mktemp("tls"))


def told(server: Listening, certificate: Path, **settings: Any) -> WebhookNotifier:
    """A webhook that has delivered one notification, or has given up."""
    given: dict[str, Any] = {
        "allowed_networks": parse_networks([HOST]),
        "ca": certificate,
        "retry_policy": PATIENT,
    } | settings
    with WebhookNotifier(server.url, **given) as webhook:
        assert webhook.enqueue(notification)
        done: list[Notification] = []
        wait_until(lambda: done.extend(webhook.take_finished()) or done, 20, "the notification to be done with")
        assert done == [notification]
    return webhook


def test_a_notification_arrives_as_slack_takes_it(certificate: Path) -> None:
    with listening(certificate, answer(200)) as server:
        assert told(server, certificate).outcomes == {"delivered": 1}
    (body,) = server.bodies
    assert (
        "[firing] lag &lt;&amp;&gt; more (ticket): 12, alarmed above 10. Events wait. Run: headrace doctor"
        in body["text"]
    )
    assert body["group"] == "stream payments"
    assert body["alerts"][0]["name"] == "lag <&> more"
    assert (body["alerts"][0]["status"], body["alerts"][0]["value"]) == ("firing", 12.0)


def test_a_server_that_fails_is_asked_again(certificate: Path) -> None:
    with listening(certificate, answer(500), answer(429), answer(204)) as server:
        assert told(server, certificate).outcomes == {"retried": 2, "delivered": 1}
    assert len(server.bodies) == 3


def test_a_server_that_always_fails_is_given_up(certificate: Path) -> None:
    with listening(certificate, answer(503)) as server:
        assert told(server, certificate).outcomes == {"retried": 3, "failed": 1}
    assert len(server.bodies) == 3


@pytest.mark.parametrize("behaviour", [hang, drip])
def test_a_server_that_never_ends_its_answer_is_left_in_time(certificate: Path, behaviour: Any) -> None:
    with listening(certificate, behaviour) as server:
        assert told(server, certificate, retry_policy=QUICK).outcomes == {
            "retried": 3,
            "failed": 1,
        }


def test_a_server_that_never_speaks_tls_is_left_in_time(certificate: Path) -> None:
    with listening(None) as server:
        assert told(server, certificate, retry_policy=QUICK).outcomes == {"retried": 3, "failed": 1}
    assert server.connections == 3


def test_a_redirect_is_not_followed(certificate: Path) -> None:
    with (
        listening(certificate, answer(200)) as elsewhere,
        listening(certificate, answer(302, location=elsewhere.url)) as server,
    ):
        assert told(server, certificate).outcomes == {"refused": 1}
        assert (len(server.bodies), elsewhere.connections) == (1, 0)


def test_a_server_that_says_no_is_not_asked_again(certificate: Path) -> None:
    with listening(certificate, answer(404)) as server:
        assert told(server, certificate).outcomes == {"refused": 1}
    assert len(server.bodies) == 1


def test_a_private_address_is_not_even_connected_to(certificate: Path) -> None:
    with listening(certificate, answer(200)) as server:
        assert told(server, certificate, allowed_networks=()).outcomes == {"refused": 1}
        assert server.connections == 0


def test_a_server_nobody_vouches_for_is_told_nothing(certificate: Path) -> None:
    with listening(certificate, answer(200)) as server:
        assert told(server, certificate, ca=None).outcomes == {"retried": 3, "failed": 1}
    assert server.bodies == []


def test_what_is_connected_to_is_what_was_checked(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that is public when it is looked at and private a moment later: it is looked at once."""
    asked: list[str] = []
    real = socket.getaddrinfo

    def rebinding(host: str, *rest: Any, **more: Any) -> Any:
        asked.append(host)
        return real(HOST, *rest, **more)

    with listening(certificate, answer(200)) as server:
        monkeypatch.setattr(socket, "getaddrinfo", rebinding)
        port = server.server_address[1]
        with WebhookNotifier(f"https://localhost:{port}/x", parse_networks([HOST]), certificate, PATIENT) as webhook:
            webhook.enqueue(notification)
            wait_until(lambda: webhook.outcomes["delivered"], 10, "delivery")
    # The name is resolved once; afterwards only its address is used, without a resolver.
    assert [host for host in asked if host == "localhost"] == ["localhost"]
    assert set(asked) <= {"localhost", HOST}


def test_whoever_tells_never_waits(certificate: Path) -> None:
    with listening(certificate, hang) as server:
        webhook = WebhookNotifier(server.url, parse_networks([HOST]), certificate, QUICK)
        taken = [webhook.enqueue(notification) for _ in range(MAX_WAITING + 5)]
    assert taken.count(False) == 5
    assert webhook.outcomes == {"no_room": 5}


def test_what_was_not_sent_when_it_stops_is_not_done_with(certificate: Path) -> None:
    slow = RetryPolicy(attempt_seconds=0.2, max_attempts=5, first_pause_seconds=30)
    with listening(certificate, answer(500)) as server:
        with WebhookNotifier(server.url, parse_networks([HOST]), certificate, slow) as webhook:
            webhook.enqueue(notification)
            wait_until(lambda: webhook.outcomes["retried"], 10, "the first attempt")
        assert webhook.take_finished() == []


def test_the_secret_of_an_address_is_in_no_line(certificate: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    for behaviour in (answer(500), answer(404), answer(302, location="https://elsewhere/")):
        with listening(certificate, behaviour) as server:
            told(server, certificate)
    url = f"https://{HOST}:{free_port()}/services/{SECRET}"
    with WebhookNotifier(url, parse_networks([HOST]), certificate, QUICK) as webhook:
        webhook.enqueue(notification)
        wait_until(lambda: webhook.outcomes["failed"], 10, "giving up")
    assert "webhook" in caplog.text
    assert SECRET not in caplog.text
    for wrong in (f"http://hooks.example/{SECRET}", f"https://me:{SECRET}@hooks.example/x", f"https://[{SECRET}/"):
        with pytest.raises(BadWebhook) as refused:
            require_https(wrong)
        assert SECRET not in str(refused.value)


PRIVATE = [
    "127.0.0.1", "127.9.9.9", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0",
    "224.0.0.1", "255.255.255.255", "192.0.2.1", "::1", "::", "fe80::1", "fe80::1%lo", "fc00::1", "fd12::1", "ff02::1",
    "::ffff:127.0.0.1", "::ffff:169.254.169.254", "64:ff9b::7f00:1", "2002:7f00:1::", "2001:db8::1",
]  # fmt: skip


@pytest.mark.parametrize("address", PRIVATE)
def test_an_address_that_is_not_public_is_refused_however_it_is_written(address: str) -> None:
    assert not is_allowed(address, ())
    plain = address.partition("%")[0]
    assert is_allowed(address, parse_networks([plain]))


NOT_GLOBAL = [
    "::127.0.0.1", "::8.8.8.8", "::10.0.0.1", "64:ff9b:1::7f00:1", "64:ff9b:1::808:808", "64:ff9b:1:ffff::1", "fec0::1",
    "feff::1", "::ffff:0:7f00:1", "::ffff:0:808:808", "64:ff9b::a00:1", "64:ff9b::a9fe:a9fe", "2002:a00:1::1",
    "2002:808:808::1", "2001:0:808:808::1", "2001::1", "2001:10::1", "100::1", "3fff::1", "5f00::1", "4000::1",
    "ff02::1", "ff0e::1", "192.88.99.1", "192.0.0.9", "192.0.0.170", "255.255.255.255", "224.0.0.1", "0.0.0.0", "::",
    "fd00::1", "::ffff:192.168.0.1", "::ffff:100.64.0.1", "::ffff:0.0.0.0",
]  # fmt: skip


@pytest.mark.parametrize("address", NOT_GLOBAL)
def test_an_address_that_is_not_globally_reachable_is_refused(address: str) -> None:
    assert not is_allowed(address, ())
    with pytest.raises(AddressRefused):
        resolve_allowed_addresses(address, 443, ())


@pytest.mark.parametrize(
    "address",
    ["8.8.8.8", "1.1.1.1", "2606:4700::1111", "2620:fe::fe", "2a00:1450::1", "64:ff9b::808:808", "::ffff:8.8.8.8"],
)
def test_a_public_address_is_reached(address: str) -> None:
    assert is_allowed(address, ())


@pytest.mark.parametrize("host", ["127.1", "2130706433", "0x7f.1", "localhost"])
def test_an_odd_way_to_write_a_host_is_judged_by_where_it_leads(host: str) -> None:
    with pytest.raises(AddressRefused, match="--webhook-allow"):
        resolve_allowed_addresses(host, 443, ())


@pytest.mark.parametrize("written", ["10.0.0.0/33", "example.org", "10.0.0.1/8"])
def test_a_list_of_addresses_that_is_none_is_refused(written: str) -> None:
    with pytest.raises(BadWebhook, match="Write an address or a network"):
        parse_networks([written])


def test_a_file_of_certificates_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadWebhook, match="PEM"):
        WebhookNotifier("https://hooks.example/x", ca=tmp_path / "none.pem")
