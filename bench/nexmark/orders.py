"""The protocol of an engine in its own process: one order per line in, one response per line out, both JSON.

Standard library only: the Python of another engine imports it too.
"""

import json
import sys
from typing import Any

ANSWER = "answer "  # what a JVM prints into the same pipe does not begin so


def obey(engine: Any) -> None:
    """Do what each line says, by the method it names, until there are no more."""
    for line in sys.stdin:
        order = json.loads(line)
        try:
            answer = {"said": getattr(engine, order.pop("do"))(**order)}
        except Exception as failure:  # noqa: BLE001  # whoever gave the order is told
            answer = {"failed": f"{type(failure).__name__}: {failure}"}
        print(f"\n{ANSWER}{json.dumps(answer)}", flush=True)
