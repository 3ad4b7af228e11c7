"""Retraining, and the comparison with the champion."""
