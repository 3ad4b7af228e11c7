"""Where the values that alerts watch come from."""
