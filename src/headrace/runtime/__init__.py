"""Running an app on this machine: settings, parts, supervision, status."""
