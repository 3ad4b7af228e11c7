"""Tests of operations: a script of events, time and crashes, with or without Spark."""
