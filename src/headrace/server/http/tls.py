"""TLS: the server's side, and how Headrace's own parts know that it is their server."""

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
    """How connections are encrypted, if they are."""
    if access.tls_cert is None and access.tls_key is None:
        return None
    if access.tls_cert is None or access.tls_key is None:
        raise TlsConfigError(
            "--tls-cert and --tls-key go together: one is the certificate, the other its private key, in PEM."
        )
    return _load_context(access.tls_cert, access.tls_key)


async def watch_certificate(context: ssl.SSLContext, access: AccessConfig) -> None:
    """Take a certificate that was renewed without a restart, until cancelled; one that is no good is passed over.

    A context that is in use is never loaded anew: certificate and key are two files, and a handshake, or who writes
    them, may come between the two.
    """
    if access.tls_cert is None or access.tls_key is None:
        return
    loaded_times: list[int] = []  # taken once more at the first look: it may have changed since the server began
    while True:
        await asyncio.sleep(POLL_SECONDS)
        modified_times = _modified_times(access.tls_cert, access.tls_key)
        if modified_times == loaded_times:
            continue
        loaded_times = modified_times
        try:
            context.sni_callback = partial(_use_renewed_context, _load_context(access.tls_cert, access.tls_key))
        except TlsConfigError as problem:
            LOGGER.error("the certificate in use is kept: %s", problem)


def _use_renewed_context(
    renewed_context: ssl.SSLContext, connection: ssl.SSLObject, _name: str | None, _original_context: ssl.SSLContext
) -> None:
    """Let a connection that begins have the newest certificate; called for every one, whatever name it asks for."""
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
    """When files were last written; 0 for one that is not there now."""
    return [file.stat().st_mtime_ns if file.exists() else 0 for file in files]


def pinned_tls_context(certificate: Path) -> ssl.SSLContext:
    """To ask a server of ours: it is the one that has this very certificate, under whatever name it is asked."""
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
    raise TlsConfigError("--tls-key is locked by a password, and nobody is there to type it. Give a key without one.")
