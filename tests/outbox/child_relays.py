"""A relay as a process of its own, which dies at a step if it was told to: PG_URL, then table, broker, step, times."""

import os
import signal
import sys
import threading

from headrace.outbox.relay import Relay
from headrace.outbox.run import Relaying
from headrace.outbox.table import Table

AT_ONCE = 20


def main(table: str, broker: str, dies_at: str = "", times: str = "1") -> None:
    left = [int(times)]

    def reached(step: str) -> None:
        if step == dies_at:
            left[0] -= 1
            if left[0] == 0:
                os.write(1, f"dies at {step}\n".encode())
                os.kill(os.getpid(), signal.SIGKILL)

    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    relay = Relay(Table("env:PG_URL", table), broker, at_once=AT_ONCE, reached=reached)
    Relaying(relay, table, every_s=0.01).run(stop)


if __name__ == "__main__":
    main(*sys.argv[1:])
