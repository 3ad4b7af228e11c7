"""Tests of operations: a script of events, time and crashes, played without Spark or with it."""
