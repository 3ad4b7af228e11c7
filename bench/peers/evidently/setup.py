"""Set Evidently up in bench/.peers/evidently: python -m bench.peers.evidently.setup."""

from pathlib import Path

from bench.peers.environment import Environment

EVIDENTLY = Environment("Evidently", "evidently", Path(__file__).with_name("requirements.lock"))

if __name__ == "__main__":
    print(EVIDENTLY.set_up())
