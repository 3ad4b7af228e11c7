"""A relay in its own process that dies at a given step: PG_URL, then table, broker, step, times."""

import os
import signal
import sys
import threading

from headrace.connectors.outbox.outbox_part import RelayRunner
from headrace.connectors.outbox.outbox_table import OutboxTable
from headrace.connectors.outbox.relay import Relay

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
    relay = Relay(OutboxTable("env:PG_URL", table), broker, batch_size=AT_ONCE, on_step=reached)
    RelayRunner(relay, table, poll_interval_s=0.01).run(stop)


if __name__ == "__main__":
    main(*sys.argv[1:])
