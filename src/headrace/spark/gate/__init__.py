"""The gate: raw records parsed and judged."""
