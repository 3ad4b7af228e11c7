"""A real broker with authentication: SASL_SSL by password, SCRAM or token, and listeners for certificates.

SASL_SSL   the one for clients: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, and OAUTHBEARER with tokens of oauth_server.py
MUTUAL     TLS with a certificate of the client's
OPENLY     SASL without TLS: PLAIN
EXPIRED    TLS with a certificate of the broker's that is out of date
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.embedded_servers.kraft import ListenerSecurity
from headrace.embedded_servers.ports import HOST, free_port
from headrace.kafka.client.security_properties import ALLOWED_URLS_PROPERTY
from tests.kafka.certificates import Authority
from tests.kafka.oauth_server import AUDIENCE, Issuer
from tests.servers import SHORT_LIVED
from tests.waiting import patiently

CANARY = 'canary-of-kafka "\\='  # a password with what each of the clients has to escape
PLAIN, SCRAM = "org.apache.kafka.common.security.plain.PlainLoginModule", "org.apache.kafka.common.security.scram"
ADMIN_PASSWORD = "canary-of-the-admin"
OAUTH = "org.apache.kafka.common.security.oauthbearer"
PROTOCOLS = {
    "SASL_SSL": "SASL_SSL",
    "MUTUAL": "SSL",
    "EXPIRED": "SSL",
    "OPENLY": "SASL_PLAINTEXT",
    "CONTROLLER": "PLAINTEXT",
}
CLIENT = "listener.name.sasl_ssl"


@dataclass(frozen=True)
class Guarded:
    """A running broker, its certificate authority, and the address of each listener."""

    broker: EmbeddedBroker
    authority: Authority
    issuer: Issuer
    folder: Path
    mutual: str
    expired: str
    openly: str

    @property
    def address(self) -> str:
        return self.broker.address

    def security(self, name: str, address: str, **words: str | bool) -> Path:
        """A file with the credentials for an address."""
        file = self.folder / f"{name}.toml"
        file.touch(mode=0o600)
        lines = [f"{word} = {_toml(value)}" for word, value in words.items()]
        file.write_text("\n".join([f'["{address}"]', *lines, ""]))
        return file

    def by_password(self, mechanism: str, password: str = CANARY, ca: str = "trusted.pem") -> Path:
        """A file for the listener of clients."""
        words = {"mechanism": mechanism, "username": "shop", "password": password, "ca": ca}
        return self.security(f"{mechanism}-{len(password)}-{ca}", self.address, **words)

    def by_token(self, secret: str = CANARY) -> Path:
        """A file for the listener of clients, whose tokens the issuer gives."""
        words = {"mechanism": "OAUTHBEARER", "client_id": "shop", "client_secret": secret, "ca": "trusted.pem"}
        return self.security(f"token-{len(secret)}", self.address, token_url=self.issuer.token_url, **words)


@contextmanager
def guarded_broker(folder: Path) -> Iterator[Guarded]:
    """The broker, with a user `shop` whose password is the canary, and who trusts the tokens of an issuer."""
    authority, ports = Authority(folder, "trusted"), {name: free_port() for name in ("MUTUAL", "EXPIRED", "OPENLY")}
    Authority(folder, "stranger")
    with Issuer("shop", CANARY) as issuer:
        settings = _settings(authority) | _tokens(issuer)
        guard = ListenerSecurity("SASL_SSL", ports, settings, {ALLOWED_URLS_PROPERTY: issuer.keys_url})
        with EmbeddedBroker(folder / "state", 0, jvm_options=SHORT_LIVED, security=guard) as broker:
            _add_users(broker.address, authority.file)
            yield Guarded(broker, authority, issuer, folder, *(f"{HOST}:{port}" for port in ports.values()))


def _tokens(issuer: Issuer) -> dict[str, str]:
    return {
        f"{CLIENT}.oauthbearer.sasl.jaas.config": f"{OAUTH}.OAuthBearerLoginModule required;",
        f"{CLIENT}.oauthbearer.sasl.server.callback.handler.class": f"{OAUTH}.OAuthBearerValidatorCallbackHandler",
        "sasl.oauthbearer.jwks.endpoint.url": issuer.keys_url,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
    }


def _settings(authority: Authority) -> dict[str, str]:
    own, old = authority.keystore("broker"), authority.keystore("old", days=-2)
    users = f'username="admin" password="{ADMIN_PASSWORD}" user_admin="{ADMIN_PASSWORD}" user_shop={_jaas(CANARY)}'
    scram = f"{SCRAM}.ScramLoginModule required;"
    return {
        "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in PROTOCOLS.items()),
        "inter.broker.listener.name": "SASL_SSL",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        f"{CLIENT}.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        f"{CLIENT}.plain.sasl.jaas.config": _property(f"{PLAIN} required {users};"),
        f"{CLIENT}.scram-sha-256.sasl.jaas.config": scram,
        f"{CLIENT}.scram-sha-512.sasl.jaas.config": scram,
        "listener.name.openly.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.openly.plain.sasl.jaas.config": _property(f"{PLAIN} required {users};"),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(own),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.file),
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.expired.ssl.keystore.type": "PEM",
        "listener.name.expired.ssl.keystore.location": str(old),
    }


def _add_users(address: str, ca: Path) -> None:
    admin = AdminClient(
        {
            "bootstrap.servers": address,
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(ca),
            "sasl.mechanism": "PLAIN",
            "sasl.username": "admin",
            "sasl.password": ADMIN_PASSWORD,
        }
    )
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        added = UserScramCredentialUpsertion("shop", ScramCredentialInfo(mechanism, 4096), CANARY.encode())
        for answer in admin.alter_user_scram_credentials([added]).values():
            answer.result(patiently(30))


def _toml(value: str | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else f"'{value}'"


def _jaas(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _property(text: str) -> str:
    """A value in a file of properties, where a backslash escapes as well."""
    return text.replace("\\", "\\\\")
