"""A process with many pages that listen to /live, and a periodic scrape of /metrics.

python -m bench.listeners http://127.0.0.1:8080 1000

Real pages run on other machines: these use as little of this machine as they can.
"""

import asyncio
import sys
import urllib.request
from urllib.parse import urlsplit

import uvloop

SCRAPE_SECONDS = 5.0
READ = memoryview(bytearray(1 << 16))  # the data that a page reads is discarded


class Page(asyncio.BufferedProtocol):
    """Reads all data; reports a connection that the server closes."""

    def __init__(self, host: str, let_go: "asyncio.Future[None]") -> None:
        self._host, self._let_go = host, let_go

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(b"GET /live HTTP/1.1\r\nhost: %b\r\n\r\n" % self._host.encode())

    def get_buffer(self, _: int) -> memoryview:
        return READ

    def buffer_updated(self, nbytes: int) -> None:
        pass

    def connection_lost(self, _: Exception | None) -> None:
        if not self._let_go.done():
            self._let_go.set_exception(ConnectionError("the server let go of a page"))


async def scrape(url: str) -> None:
    """Scrape all metrics every few seconds, like Prometheus."""
    while True:
        await asyncio.to_thread(lambda: urllib.request.urlopen(f"{url}/metrics").read())
        await asyncio.sleep(SCRAPE_SECONDS)


async def main(url: str, pages: int) -> None:
    asked, loop = urlsplit(url), asyncio.get_running_loop()
    host, port = asked.hostname or "", asked.port or 80
    let_go: asyncio.Future[None] = loop.create_future()
    for _ in range(pages):
        await loop.create_connection(lambda: Page(host, let_go), host, port)
    await asyncio.gather(scrape(url), let_go)


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], int(sys.argv[2])))
