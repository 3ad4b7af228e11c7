"""Evidently: drift with its defaults, on the windows that Headrace tests."""
