"""The training-serving consistency check: served values against batch values."""
