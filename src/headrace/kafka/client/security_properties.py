"""A broker's security settings as properties of each client: librdkafka's, and Java's for Spark."""

from pathlib import Path

from headrace.kafka.client.security import (
    OAUTH_MECHANISM,
    SecurityConfig,
    SecurityConfigError,
    find_security_config,
    read_security_configs,
)

ClientProperties = dict[str, str]

LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
    OAUTH_MECHANISM: "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
}
OAUTH_CALLBACK_HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
ALLOWED_URLS_PROPERTY = (
    "org.apache.kafka.sasl.oauthbearer.allowed.urls"  # a property of the JVM: no token is fetched elsewhere
)
SECRET_PROPERTIES = frozenset({"sasl.jaas.config", "ssl.keystore.key", "ssl.key.password"})  # of a Java client
# Names of options whose values Spark redacts in plans, pages, event logs and log lines; its own list lacks jaas.
REDACTED_OPTIONS = r"(?i)secret|password|passwd|token|credential|jaas|keystore|access[.]?key|api[.]?key|url"


def librdkafka_properties(security: SecurityConfig) -> ClientProperties:
    """Properties for confluent-kafka."""
    properties = {
        "security.protocol": security.protocol,
        "sasl.mechanism": security.mechanism,
        "ssl.ca.location": security.ca,
        "ssl.certificate.location": security.certificate,
        "ssl.key.location": security.key,
        "ssl.key.password": security.key_password,
        "sasl.username": security.username,
        "sasl.password": security.password,
    }
    if security.mechanism == OAUTH_MECHANISM:
        properties |= {
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.token.endpoint.url": security.token_url,
            "sasl.oauthbearer.client.id": security.client_id,
            "sasl.oauthbearer.client.secret": security.client_secret,
            "sasl.oauthbearer.scope": security.scope,
        }
    return {name: str(value) for name, value in properties.items() if value}


def java_properties(security: SecurityConfig) -> ClientProperties:
    """Properties for a Java client: certificates as text, since executors may be on another machine."""
    properties = {"security.protocol": security.protocol}
    if security.ca is not None:
        properties |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": security.ca.read_text()}
    if security.certificate is not None and security.key is not None:
        properties |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": security.certificate.read_text(),
            "ssl.keystore.key": _read_pkcs8_key(security.key),
        }
    if security.key_password:
        properties["ssl.key.password"] = security.key_password
    if security.mechanism is not None:
        properties |= {"sasl.mechanism": security.mechanism, "sasl.jaas.config": _jaas_config(security)}
    if security.mechanism == OAUTH_MECHANISM:
        properties |= {
            "sasl.oauthbearer.token.endpoint.url": security.token_url,
            "sasl.login.callback.handler.class": OAUTH_CALLBACK_HANDLER,
        }
    return properties


def spark_kafka_options(broker: str) -> ClientProperties:
    """The options of Spark's Kafka source and sink for a broker."""
    security = find_security_config(broker)
    security_properties = {} if security is None else java_properties(security)
    return {f"kafka.{name}": value for name, value in {"bootstrap.servers": broker, **security_properties}.items()}


def jvm_properties() -> ClientProperties:
    """Properties a JVM needs to reach the configured brokers; none of them is secret."""
    urls = {security.token_url for security in read_security_configs() if security.mechanism == OAUTH_MECHANISM}
    return {ALLOWED_URLS_PROPERTY: ",".join(sorted(urls))} if urls else {}


def _jaas_config(security: SecurityConfig) -> str:
    """The login configuration in Java's JAAS format.

    >>> from pathlib import Path
    >>> _jaas_config(SecurityConfig(frozenset(), Path(), mechanism="PLAIN", username="me", password='a"b'))
    'org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="a\\\\"b";'
    """
    login_values = {"username": security.username, "password": security.password}
    if security.mechanism == OAUTH_MECHANISM:
        login_values = {"clientId": security.client_id, "clientSecret": security.client_secret, "scope": security.scope}
    options = " ".join(f"{name}={_quote(value)}" for name, value in login_values.items() if value)
    return f"{LOGIN_MODULES[security.mechanism or '']} required {options};"


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _read_pkcs8_key(key: Path) -> str:
    text = key.read_text()
    if "BEGIN PRIVATE KEY" not in text and "BEGIN ENCRYPTED PRIVATE KEY" not in text:
        raise SecurityConfigError(
            f"{key} is no PKCS#8 key, and Java reads no other. "
            f"Write: openssl pkcs8 -topk8 -nocrypt -in {key} -out pkcs8.key"
        )
    return text
