"""Aggregate functions, one file each: what they take and give, and how each path computes them, merged in any order."""
