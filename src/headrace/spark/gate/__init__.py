"""The gate: parses raw records and classifies them."""
