"""Tests of operations: a script of events, watermarks and crashes, with or without Spark."""
