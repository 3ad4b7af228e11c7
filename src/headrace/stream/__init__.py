"""Declarations become Spark queries: the gate, the tiles, their lanes and checkpoints."""
