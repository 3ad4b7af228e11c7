"""Private files and folders of an app, and secrets."""
