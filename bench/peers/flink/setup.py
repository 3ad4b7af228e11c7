"""Set Flink up in bench/.peers/apache-flink: python -m bench.peers.flink.setup."""

from pathlib import Path

from bench.peers.environment import Environment

FLINK = Environment("Flink", "apache-flink", Path(__file__).with_name("requirements.lock"))

if __name__ == "__main__":
    print(FLINK.set_up())
