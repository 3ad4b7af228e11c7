"""One file over HTTP: resumed where it broke off, checked by its SHA-256, put in place by a rename."""

import base64
import hashlib
import http.client
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

from headrace.errors import HeadraceError

TRIES = 4
_CHUNK = 1 << 16
_TIMEOUT_S = 60
_WORTH_ANOTHER_TRY = {408, 425, 429, 500, 502, 503, 504}
_BROKE_OFF = (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError)


class DownloadFailed(HeadraceError):
    """The file is not to be had from this address, with the reason."""


@dataclass(frozen=True)
class Download:
    """What to fetch, where to put it, and what it must be."""

    url: str
    to: Path
    sha256: str
    size: int

    @property
    def part(self) -> Path:
        """The unfinished file, kept so that the next try goes on from it."""
        return self.to.with_name(self.to.name + ".part")


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fetch(download: Download, received: Callable[[int], None]) -> None:
    """Fetch the file; `received` is told of each piece's bytes."""
    reason = ""
    for attempt in range(TRIES):
        time.sleep(attempt * 0.5)
        try:
            _fetch_rest(download, received)
        except urllib.error.HTTPError as error:
            reason = f"the server answered {error.code} {error.reason}"
            error.close()
            if error.code == 416:
                download.part.unlink(missing_ok=True)
            elif error.code not in _WORTH_ANOTHER_TRY:
                break
        except _BROKE_OFF as error:
            reason = f"the connection failed ({_cause(error)})"
            if _is_certificate_error(error):
                break
        else:
            reason = _wrong(download)
            if not reason:
                download.part.replace(download.to)
                return
    raise DownloadFailed(f"{shown(download.url)}: {reason}")


def shown(url: str) -> str:
    """The address without a user's name and password."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def _fetch_rest(download: Download, received: Callable[[int], None]) -> None:
    start = download.part.stat().st_size if download.part.exists() else 0
    if start >= download.size:
        return
    with urllib.request.urlopen(_request(download.url, start), timeout=_TIMEOUT_S) as response:  # noqa: S310
        resumed = response.status == 206
        with download.part.open("ab" if resumed else "wb") as part:
            received(start if resumed else 0)
            while piece := response.read(_CHUNK):
                part.write(piece)
                received(len(piece))


def _request(url: str, start: int) -> urllib.request.Request:
    parts = urlsplit(url)
    request = urllib.request.Request(shown(url))  # noqa: S310 - the address is the user's own setting
    if parts.username is not None:
        secret = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        request.add_header("Authorization", "Basic " + base64.b64encode(secret.encode()).decode())
    if start:
        request.add_header("Range", f"bytes={start}-")
    return request


def _wrong(download: Download) -> str:
    """What is wrong with the finished part, or nothing; a part that cannot become right is removed."""
    size = download.part.stat().st_size
    if size < download.size:
        return f"the connection ended after {size} of {download.size} bytes"
    digest = sha256_of(download.part)
    if digest == download.sha256:
        return ""
    download.part.unlink()
    return f"its SHA-256 is {digest}, not {download.sha256}"


def _cause(error: BaseException) -> str:
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    return str(reason) or type(error).__name__


def _is_certificate_error(error: BaseException) -> bool:
    return isinstance(getattr(error, "reason", None), ssl.SSLCertVerificationError)
