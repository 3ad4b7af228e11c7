"""Sinks: streams and predictions brought elsewhere, row by row, as often as was declared."""
