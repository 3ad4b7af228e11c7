"""Servers and tools that run on this machine: Java, jars, the broker, Connect, the schema registry."""
