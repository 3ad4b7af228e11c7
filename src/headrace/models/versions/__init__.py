"""The versions of a model and their roles."""
