"""Commands that run, show and explain an app."""
