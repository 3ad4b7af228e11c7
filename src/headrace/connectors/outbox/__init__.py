"""The outbox: rows that a service wrote with its business change, relayed to the log."""
