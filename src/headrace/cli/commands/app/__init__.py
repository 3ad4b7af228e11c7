"""Commands that run, inspect and explain an app."""
