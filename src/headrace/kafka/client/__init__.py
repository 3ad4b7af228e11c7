"""Client configuration, authentication, and the diagnosis of failed connections."""
