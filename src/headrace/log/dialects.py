"""What is said of a broker's security, in the words of each client: librdkafka's, and Java's for Spark."""

from pathlib import Path

from headrace.log.security import OAUTH, BadSecurity, Security, every_security, security_of

Words = dict[str, str]

MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
    OAUTH: "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
}
TOKENS = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
ALLOWED_URLS = "org.apache.kafka.sasl.oauthbearer.allowed.urls"  # a property of the JVM: no token is fetched elsewhere
SECRET_WORDS = frozenset({"sasl.jaas.config", "ssl.keystore.key", "ssl.key.password"})  # of a Java client
# Names of options whose values no plan, page, event log or log line of Spark shows; its own list knows no jaas.
HIDDEN = r"(?i)secret|password|passwd|token|credential|jaas|keystore|access[.]?key|api[.]?key|url"


def librdkafka_words(security: Security) -> Words:
    """For confluent-kafka."""
    words = {
        "security.protocol": security.protocol,
        "sasl.mechanism": security.mechanism,
        "ssl.ca.location": security.ca,
        "ssl.certificate.location": security.certificate,
        "ssl.key.location": security.key,
        "ssl.key.password": security.key_password,
        "sasl.username": security.username,
        "sasl.password": security.password,
    }
    if security.mechanism == OAUTH:
        words |= {
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.token.endpoint.url": security.token_url,
            "sasl.oauthbearer.client.id": security.client_id,
            "sasl.oauthbearer.client.secret": security.client_secret,
            "sasl.oauthbearer.scope": security.scope,
        }
    return {name: str(value) for name, value in words.items() if value}


def java_words(security: Security) -> Words:
    """For a Java client: certificates by their text, since who reads them may be on another machine."""
    words = {"security.protocol": security.protocol}
    if security.ca is not None:
        words |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": security.ca.read_text()}
    if security.certificate is not None and security.key is not None:
        words |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": security.certificate.read_text(),
            "ssl.keystore.key": _pkcs8(security.key),
        }
    if security.key_password:
        words["ssl.key.password"] = security.key_password
    if security.mechanism is not None:
        words |= {"sasl.mechanism": security.mechanism, "sasl.jaas.config": _jaas(security)}
    if security.mechanism == OAUTH:
        words |= {
            "sasl.oauthbearer.token.endpoint.url": security.token_url,
            "sasl.login.callback.handler.class": TOKENS,
        }
    return words


def spark_words(broker: str) -> Words:
    """How Spark's Kafka source and sink reach a broker."""
    security = security_of(broker)
    said = {} if security is None else java_words(security)
    return {f"kafka.{name}": value for name, value in {"bootstrap.servers": broker, **said}.items()}


def jvm_words() -> Words:
    """Properties that a JVM needs to reach the brokers we were told of; none of them is secret."""
    urls = {security.token_url for security in every_security() if security.mechanism == OAUTH}
    return {ALLOWED_URLS: ",".join(sorted(urls))} if urls else {}


def _jaas(security: Security) -> str:
    """Who we are, as Java's login reads it.

    >>> from pathlib import Path
    >>> _jaas(Security(frozenset(), Path(), mechanism="PLAIN", username="me", password='a"b'))
    'org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="a\\\\"b";'
    """
    named = {"username": security.username, "password": security.password}
    if security.mechanism == OAUTH:
        named = {"clientId": security.client_id, "clientSecret": security.client_secret, "scope": security.scope}
    told = " ".join(f"{name}={_quoted(value)}" for name, value in named.items() if value)
    return f"{MODULES[security.mechanism or '']} required {told};"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _pkcs8(key: Path) -> str:
    text = key.read_text()
    if "BEGIN PRIVATE KEY" not in text and "BEGIN ENCRYPTED PRIVATE KEY" not in text:
        raise BadSecurity(
            f"{key} is no PKCS#8 key, and Java reads no other. "
            f"Write: openssl pkcs8 -topk8 -nocrypt -in {key} -out pkcs8.key"
        )
    return text
