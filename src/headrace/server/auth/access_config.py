"""What the settings say of who may ask a server."""

from dataclasses import dataclass
from pathlib import Path

DEFAULT_REQUESTS_PER_SECOND = 5000


@dataclass(frozen=True)
class AccessConfig:
    """How what is said is kept from others on the way, by which names a server is asked, and how often by one token."""

    tls_cert: Path | None = None
    tls_key: Path | None = None
    is_behind_proxy: bool = False
    allowed_hosts: tuple[str, ...] = ()
    requests_per_second: float = DEFAULT_REQUESTS_PER_SECOND

    @property
    def is_encrypted(self) -> bool:
        """Whether nobody can read on the way what is said."""
        return self.tls_cert is not None or self.is_behind_proxy


DEFAULT_ACCESS = AccessConfig()
