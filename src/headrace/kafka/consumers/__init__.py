"""Consumers: tailing, in groups, from offsets kept elsewhere; and how far behind they are."""
