"""The versions of a model, and which of them scores."""
