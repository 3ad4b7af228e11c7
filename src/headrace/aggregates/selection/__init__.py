"""Functions that select one of the values: the smallest, the greatest, the first, the last."""
