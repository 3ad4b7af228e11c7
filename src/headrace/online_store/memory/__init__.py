"""The online store in memory."""
