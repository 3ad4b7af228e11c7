"""Set Feast up in bench/.peers/feast: python -m bench.peers.feast.setup."""

from pathlib import Path

from bench.peers.environment import Environment

FEAST = Environment("Feast", "feast", Path(__file__).with_name("requirements.lock"))

if __name__ == "__main__":
    print(FEAST.set_up())
