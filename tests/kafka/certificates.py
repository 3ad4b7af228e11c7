"""A certificate authority for tests, and its certificates: valid, expired, and for another name."""

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from headrace.embedded_servers.ports import HOST


class Authority:
    """Signs certificates; its own is in FOLDER/NAME.pem."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._key, self._name = folder, ec.generate_private_key(ec.SECP256R1()), _named(name)
        basic = x509.BasicConstraints(ca=True, path_length=None)
        own = _begun(self._name, self._name, self._key.public_key(), days=30).add_extension(basic, critical=True)
        self.file = folder / f"{name}.pem"
        self.file.write_bytes(own.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))

    def sign(self, name: str, *, address: str = HOST, days: int = 30) -> tuple[Path, Path]:
        """A certificate and its key, each in its own file."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))])
        begun = _begun(_named(name), self._name, key.public_key(), days).add_extension(names, critical=False)
        certificate, secret = self._folder / f"{name}.crt", self._folder / f"{name}.key"
        certificate.write_bytes(begun.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        secret.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return certificate, secret

    def keystore(self, name: str, **how: int | str) -> Path:
        """A certificate and its key in one file, as a Java server reads them."""
        certificate, key = self.sign(name, **how)  # type: ignore[arg-type]
        together = self._folder / f"{name}.pem"
        together.write_text(key.read_text() + certificate.read_text())
        return together


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _begun(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: int) -> x509.CertificateBuilder:
    """Good for so many days from yesterday on; with less than none, no more since the day before."""
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key)
    builder = builder.serial_number(x509.random_serial_number())
    until = now + timedelta(days=days)
    return builder.not_valid_before(min(now, until) - timedelta(days=1)).not_valid_after(until)
