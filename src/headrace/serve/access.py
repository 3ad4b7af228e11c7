"""What the settings say of who may ask a server."""

from dataclasses import dataclass
from pathlib import Path

USUAL_RATE = 5000


@dataclass(frozen=True)
class Access:
    """How what is said is kept from others on the way, by which names a server is asked, and how often by one token."""

    tls_cert: Path | None = None
    tls_key: Path | None = None
    is_behind_proxy: bool = False
    names: tuple[str, ...] = ()
    rate: float = USUAL_RATE

    @property
    def is_secret(self) -> bool:
        """Whether nobody can read on the way what is said."""
        return self.tls_cert is not None or self.is_behind_proxy


UNTOLD = Access()
