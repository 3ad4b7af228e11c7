"""What the ClickHouse target is made of."""
