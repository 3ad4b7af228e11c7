"""A load process with many connections, each of which sends its next request after a response.

`python -m tests.server.load PORT 40 1.0` prints how often each status was answered.
"""

import asyncio
import json
import sys
import time
from collections import Counter

from headrace.embedded_servers.ports import HOST

QUESTION = b"POST /work HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}"


async def ask_until(port: int, end: float, statuses: Counter[int]) -> None:
    reader, writer = await asyncio.open_connection(HOST, port)
    while time.perf_counter() < end:
        writer.write(QUESTION)
        head = await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]))
        statuses[int(head.split(b" ", 2)[1])] += 1
    writer.close()


async def ask_all(port: int, connections: int, seconds: float) -> Counter[int]:
    statuses: Counter[int] = Counter()
    end = time.perf_counter() + seconds
    await asyncio.gather(*(ask_until(port, end, statuses) for _ in range(connections)))
    return statuses


if __name__ == "__main__":
    port, connections, seconds = sys.argv[1:]
    sys.stdout.write(json.dumps(asyncio.run(ask_all(int(port), int(connections), float(seconds)))))
