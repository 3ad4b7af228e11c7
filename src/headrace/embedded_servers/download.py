"""Downloads one file over HTTP: resumes a partial one, checks its SHA-256, and renames it into place."""

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

MAX_ATTEMPTS = 4
_CHUNK_BYTES = 1 << 16
_TIMEOUT_S = 60
_RETRYABLE_STATUSES = {408, 425, 429, 500, 502, 503, 504}
_CONNECTION_ERRORS = (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError)


class DownloadFailed(HeadraceError):
    """The file could not be downloaded from this address, and why."""


@dataclass(frozen=True)
class Download:
    """What to download, where to put it, and its size and SHA-256."""

    url: str
    target: Path
    sha256: str
    size: int

    @property
    def partial_file(self) -> Path:
        """The unfinished file, kept so that the next attempt resumes it."""
        return self.target.with_name(self.target.name + ".part")


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fetch_file(download: Download, on_received: Callable[[int], None]) -> None:
    """Download the file; `on_received` is called with the number of bytes of each chunk."""
    reason = ""
    for attempt in range(MAX_ATTEMPTS):
        time.sleep(attempt * 0.5)
        try:
            _fetch_remaining(download, on_received)
        except urllib.error.HTTPError as error:
            reason = f"the server answered {error.code} {error.reason}"
            error.close()
            if error.code == 416:
                download.partial_file.unlink(missing_ok=True)
            elif error.code not in _RETRYABLE_STATUSES:
                break
        except _CONNECTION_ERRORS as error:
            reason = f"the connection failed ({_cause(error)})"
            if _is_certificate_error(error):
                break
        else:
            reason = _find_fault(download)
            if not reason:
                download.partial_file.replace(download.target)
                return
    raise DownloadFailed(f"{mask_credentials(download.url)}: {reason}")


def mask_credentials(url: str) -> str:
    """The address without a username and password."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def _fetch_remaining(download: Download, on_received: Callable[[int], None]) -> None:
    start = download.partial_file.stat().st_size if download.partial_file.exists() else 0
    if start >= download.size:
        return
    with urllib.request.urlopen(_request(download.url, start), timeout=_TIMEOUT_S) as response:  # noqa: S310
        is_resumed = response.status == 206
        with download.partial_file.open("ab" if is_resumed else "wb") as partial_file:
            on_received(start if is_resumed else 0)
            while chunk := response.read(_CHUNK_BYTES):
                partial_file.write(chunk)
                on_received(len(chunk))


def _request(url: str, start: int) -> urllib.request.Request:
    parts = urlsplit(url)
    request = urllib.request.Request(mask_credentials(url))  # noqa: S310 - the address is the user's own setting
    if parts.username is not None:
        credentials = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        request.add_header("Authorization", "Basic " + base64.b64encode(credentials.encode()).decode())
    if start:
        request.add_header("Range", f"bytes={start}-")
    return request


def _find_fault(download: Download) -> str:
    """What is wrong with the finished download, or nothing; a file that cannot become right is removed."""
    size = download.partial_file.stat().st_size
    if size < download.size:
        return f"the connection ended after {size} of {download.size} bytes"
    digest = sha256_of(download.partial_file)
    if digest == download.sha256:
        return ""
    download.partial_file.unlink()
    return f"its SHA-256 is {digest}, not {download.sha256}"


def _cause(error: BaseException) -> str:
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    return str(reason) or type(error).__name__


def _is_certificate_error(error: BaseException) -> bool:
    return isinstance(getattr(error, "reason", None), ssl.SSLCertVerificationError)
