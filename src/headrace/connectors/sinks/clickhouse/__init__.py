"""Client, wire format and table schema of the ClickHouse target."""
