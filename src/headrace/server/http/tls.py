"""TLS contexts: of the server, and of internal clients, which pin the server's certificate."""

import asyncio
import logging
import re
import ssl
from functools import partial
from pathlib import Path

from headrace.errors import HeadraceError
from headrace.server.auth.access_config import AccessConfig

POLL_SECONDS = 10.0
LOGGER = logging.getLogger("headrace.serve")
_CERTIFICATE_PATTERN = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)


class TlsConfigError(HeadraceError):
    """A certificate or a key that cannot be used."""


def server_tls_context(access: AccessConfig) -> ssl.SSLContext | None:
    """The TLS context of the server, or None without TLS."""
    if access.tls_cert is None and access.tls_key is None:
        return None
    if access.tls_cert is None or access.tls_key is None:
        raise TlsConfigError(
            "--tls-cert and --tls-key go together: one is the certificate, the other its private key, in PEM."
        )
    return _load_context(access.tls_cert, access.tls_key)


async def watch_certificate(context: ssl.SSLContext, access: AccessConfig) -> None:
    """Load renewed certificates without a restart, until cancelled; an invalid one is ignored.

    A context in use is never reloaded: certificate and key are two files, and a handshake, or the process that writes
    them, may come between the two.
    """
    if access.tls_cert is None or access.tls_key is None:
        return
    loaded_times: list[int] = []  # the first check always loads: the files may have changed since the server started
    while True:
        await asyncio.sleep(POLL_SECONDS)
        modified_times = _modified_times(access.tls_cert, access.tls_key)
        if modified_times == loaded_times:
            continue
        loaded_times = modified_times
        try:
            context.sni_callback = partial(_use_renewed_context, _load_context(access.tls_cert, access.tls_key))
        except TlsConfigError as problem:
            LOGGER.error("Could not load the renewed certificate, the current one stays in use: %s", problem)


def _use_renewed_context(
    renewed_context: ssl.SSLContext, connection: ssl.SSLObject, _name: str | None, _original_context: ssl.SSLContext
) -> None:
    """Use the newest certificate for a new connection; called for every handshake, whatever its server name."""
    connection.context = renewed_context


def _load_context(cert: Path, key: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(cert, key, _reject_locked_key)
    except (OSError, ssl.SSLError) as problem:
        raise TlsConfigError(
            f"--tls-cert {cert} and --tls-key {key} cannot be used: {problem}. "
            "Give a certificate and the key that belongs to it, in PEM."
        ) from problem
    return context


def _modified_times(*files: Path) -> list[int]:
    """The modification times of files; 0 for a missing file."""
    return [file.stat().st_mtime_ns if file.exists() else 0 for file in files]


def pinned_tls_context(certificate: Path) -> ssl.SSLContext:
    """The client's TLS context for an internal server: it trusts only this certificate, and ignores the host name."""
    try:
        certificate_match = _CERTIFICATE_PATTERN.search(certificate.read_text())
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
        context.load_verify_locations(cadata=certificate_match[0] if certificate_match else "")
    except (OSError, ValueError, ssl.SSLError) as problem:
        raise TlsConfigError(
            f"--tls-cert {certificate} cannot be read: {problem}. Give a certificate in PEM."
        ) from problem
    return context


def _reject_locked_key() -> str:
    raise TlsConfigError("--tls-key is encrypted with a password, which is not supported. Give a key without one.")
