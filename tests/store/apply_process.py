"""One apply worker as a process of its own: python -m tests.store.apply_process BROKER STORE_URL VIEW."""

import sys
from dataclasses import replace

from headrace.store.apply import ApplyWorker
from headrace.store.kinds import store_of
from tests.store.tiles import Spend


def main(broker: str, store_url: str, view_name: str) -> None:
    view = replace(Spend, name=view_name)
    ApplyWorker(broker, store_of(store_url, [view]), [view]).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
