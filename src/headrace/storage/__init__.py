"""Files that an app keeps for its owner alone, and secrets."""
