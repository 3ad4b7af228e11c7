import sys
from pathlib import Path

# The examples are scripts, run from their own folder; the tests import what the scripts import.
sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "fraud"))
sys.path.append(str(Path(__file__).parents[2] / "examples" / "flights"))
sys.path.append(str(Path(__file__).parents[2] / "examples" / "bandit"))
sys.path.append(str(Path(__file__).parents[2] / "examples" / "orders"))
