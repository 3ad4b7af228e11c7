"""Features of many entities at many times, for training sets."""
