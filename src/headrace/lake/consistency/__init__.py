"""Training-serving consistency: what was served against what batch computes."""
