"""The settings that decide who may send requests to a server."""

from dataclasses import dataclass
from pathlib import Path

DEFAULT_REQUESTS_PER_SECOND = 5000


@dataclass(frozen=True)
class AccessConfig:
    """TLS, the host names a server accepts, and the rate limit of one token."""

    tls_cert: Path | None = None
    tls_key: Path | None = None
    is_behind_proxy: bool = False
    allowed_hosts: tuple[str, ...] = ()
    requests_per_second: float = DEFAULT_REQUESTS_PER_SECOND

    @property
    def is_encrypted(self) -> bool:
        """Whether clients reach the server over TLS."""
        return self.tls_cert is not None or self.is_behind_proxy


DEFAULT_ACCESS = AccessConfig()
