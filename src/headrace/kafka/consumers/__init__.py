"""Consumers: tailing, in groups, with external offsets; and consumer lag."""
