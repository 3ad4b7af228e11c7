"""Diagnoses why a connection to a broker failed; runs only after a failure.

librdkafka reports the same for an expired certificate, an unknown one and one of another name. So this does its own
TLS handshake with the same files, and reads the exact reason.
"""

import socket
import ssl
from ssl import SSLCertVerificationError, SSLError

from headrace.errors import HeadraceError
from headrace.kafka.client.security import (
    SECURITY_FILE_VARIABLE,
    SecurityConfig,
    find_security_config,
    read_security_configs,
)

CONNECT_TIMEOUT_SECONDS = 1.0
NO_RESPONSE = (
    "accepts connections but answers no request. Wait if it is busy; if it requires authentication, or speaks no TLS, "
    "say so in a file, and name that by --broker-security FILE."
)
EXPIRED, NOT_YET_VALID, HOSTNAME_MISMATCH, IP_ADDRESS_MISMATCH = (
    10,
    9,
    62,
    64,
)  # OpenSSL's codes for a rejected certificate


class BrokerUnreachable(HeadraceError):
    """No broker answers at the address, or the one that answers is unusable."""

    def __init__(self, broker: str, reason: str = "") -> None:
        super().__init__(
            f"The broker at {broker!r} {reason}"
            if reason
            else f"No Kafka broker answers at {broker!r}. "
            "Start it, or give the address of one that runs with --broker HOST:PORT."
        )
        self.broker = broker


class AuthenticationFailed(BrokerUnreachable):
    """The broker rejects our credentials."""


class CertificateRejected(BrokerUnreachable):
    """We reject the broker's certificate."""


def diagnose_connection(broker: str, client_error: str) -> BrokerUnreachable:
    """The error for a failed connection, given the client's error."""
    address = next((candidate for candidate in broker.split(",") if _accepts_connection(candidate)), None)
    if address is None:
        return BrokerUnreachable(broker)
    security = find_security_config(broker)
    if security is None:
        return (
            AuthenticationFailed(broker, _describe_missing_security())
            if _speaks_tls(address)
            else BrokerUnreachable(broker, NO_RESPONSE)
        )
    certificate_problem = _check_certificate(address, security) if security.tls else None
    if certificate_problem is not None:
        return CertificateRejected(address, f"is not trusted: {certificate_problem}")
    return (
        AuthenticationFailed(broker, _describe_failed_authentication(security, client_error))
        if client_error
        else BrokerUnreachable(broker, NO_RESPONSE)
    )


def _describe_missing_security() -> str:
    addresses = ", ".join(sorted(address for security in read_security_configs() for address in security.addresses))
    configured = (
        f"the file of {SECURITY_FILE_VARIABLE} configures only {addresses}"
        if addresses
        else "no security is configured"
    )
    return f"wants TLS, and {configured}. Configure it in a file, and name that by --broker-security FILE."


def _describe_failed_authentication(security: SecurityConfig, client_error: str) -> str:
    if "certificate" in client_error and security.mechanism is None:
        problem = f"does not take {security.certificate}" if security.certificate else "wants a certificate of ours"
        return f"{problem}. Name one that it trusts as certificate and key in {security.file}."
    return (
        f"rejects {security.principal}: wrong name, secret or mechanism. Fix them in {security.file}, or what it names."
    )


def _check_certificate(address: str, security: SecurityConfig) -> str | None:
    """What is wrong with a broker's certificate, and what to do; None where nothing is."""
    host, port = _parse_address(address)
    try:
        context = ssl.create_default_context(cafile=security.ca)
        if security.certificate is not None and security.key is not None:
            context.load_cert_chain(security.certificate, security.key, lambda: security.key_password)
        with (
            socket.create_connection((host, port), CONNECT_TIMEOUT_SECONDS) as connection,
            context.wrap_socket(connection, server_hostname=host),
        ):
            return None
    except SSLCertVerificationError as verification_error:
        return _describe_certificate_error(
            verification_error.verify_code, verification_error.verify_message, host, security
        )
    except SSLError as error:
        if "CERT" in (error.reason or "") or "KEY" in (error.reason or ""):
            return f"{security.file} names files that are not a pair, or not PEM ({error.reason}). Fix them."
        return f"it does not speak TLS ({error.reason}). Write tls = false in {security.file} if that is meant."
    except OSError:
        return None


def _describe_certificate_error(code: int, message: str, host: str, security: SecurityConfig) -> str:
    if code in (HOSTNAME_MISMATCH, IP_ADDRESS_MISMATCH):
        return f"its certificate is for another name than {host!r}. Ask it by a name that its certificate has."
    if code in (EXPIRED, NOT_YET_VALID):
        return f"its certificate is out of date ({message}). Renew it there, or look at this machine's clock."
    authority = f"{security.ca}" if security.ca else "what this system trusts"
    return f"its certificate is not signed by {authority} ({message}). Name the right ca in {security.file}."


def _speaks_tls(address: str) -> bool:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # no data is sent there
    try:
        with (
            socket.create_connection(_parse_address(address), CONNECT_TIMEOUT_SECONDS) as connection,
            context.wrap_socket(connection),
        ):
            return True
    except OSError:
        return False


def is_listening(broker: str) -> bool:
    """Whether one of a broker's addresses accepts a TCP connection."""
    return any(map(_accepts_connection, broker.split(",")))


def _accepts_connection(address: str) -> bool:
    try:
        with socket.create_connection(_parse_address(address), CONNECT_TIMEOUT_SECONDS):
            return True
    except (OSError, ValueError):
        return False


def _parse_address(address: str) -> tuple[str, int]:
    host, _, port = address.strip().rpartition(":")
    return host.strip("[]"), int(port)
