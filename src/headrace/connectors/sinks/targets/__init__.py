"""The systems a sink can write to, one file each."""
