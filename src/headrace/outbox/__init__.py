"""The outbox: rows that a service wrote together with its business change, relayed to the log."""
