"""Model quality as tiles, minute by minute."""
