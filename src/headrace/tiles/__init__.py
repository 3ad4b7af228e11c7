"""Hop, tile, merge, finish: the one kernel. Numpy and datasketches only."""
