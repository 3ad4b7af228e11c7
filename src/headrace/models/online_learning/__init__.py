"""Models with online learning."""
