"""Other platforms' servers, each in an environment of its own, measured beside ours."""
