"""From feature vectors to predictions."""
