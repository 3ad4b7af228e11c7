"""One apply worker as a process of its own: python -m tests.store.apply_process BROKER REDIS_URL VIEW."""

import sys
from dataclasses import replace

from headrace.store.apply import ApplyWorker
from headrace.store.redis import RedisStore
from tests.store.tiles import Spend


def main(broker: str, redis_url: str, view_name: str) -> None:
    view = replace(Spend, name=view_name)
    ApplyWorker(broker, RedisStore(redis_url, [view]), [view]).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
