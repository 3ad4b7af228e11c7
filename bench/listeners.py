"""So many pages that listen to /live, and a scrape of /metrics now and then, as a process of its own.

python -m bench.listeners http://127.0.0.1:8080 1000
"""

import asyncio
import sys
import urllib.request
from urllib.parse import urlsplit

SCRAPE_SECONDS = 5.0
PIECE = 1 << 16


async def listen(host: str, port: int) -> None:
    """A page: it reads whatever comes."""
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(b"GET /live HTTP/1.1\r\nhost: %b\r\n\r\n" % host.encode())
    while await reader.read(PIECE):
        pass
    raise ConnectionError("the server let go of a page")


async def scrape(url: str) -> None:
    """Prometheus: all numbers, every few seconds."""
    while True:
        await asyncio.to_thread(lambda: urllib.request.urlopen(f"{url}/metrics").read())
        await asyncio.sleep(SCRAPE_SECONDS)


async def main(url: str, pages: int) -> None:
    asked = urlsplit(url)
    await asyncio.gather(scrape(url), *(listen(asked.hostname or "", asked.port or 80) for _ in range(pages)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
