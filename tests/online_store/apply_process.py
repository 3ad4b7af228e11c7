"""One apply worker in its own process: python -m tests.online_store.apply_process BROKER STORE_URL VIEW."""

import sys
from dataclasses import replace

from headrace.online_store.changelog_applier import ApplyWorker
from headrace.online_store.registry import create_store
from tests.online_store.tiles import Spend


def main(broker: str, store_url: str, view_name: str) -> None:
    view = replace(Spend, name=view_name)
    ApplyWorker(broker, create_store(store_url, [view]), [view]).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
