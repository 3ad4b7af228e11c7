"""The protocol of an engine in its own process: one order per line in, one response per line out, both JSON.

Standard library only: the Python of another engine imports it too.
"""

import json
import sys
from typing import Any

ANSWER = "answer "  # tells a response from what a JVM prints into the same pipe


def obey(engine: Any) -> None:
    """Execute each line with the method it names, until the input ends."""
    for line in sys.stdin:
        order = json.loads(line)
        try:
            answer = {"said": getattr(engine, order.pop("do"))(**order)}
        except Exception as failure:  # noqa: BLE001  # the response reports it
            answer = {"failed": f"{type(failure).__name__}: {failure}"}
        print(f"\n{ANSWER}{json.dumps(answer)}", flush=True)
