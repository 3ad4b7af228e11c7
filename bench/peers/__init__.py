"""Other platforms' servers, each in its own environment, measured beside Headrace's."""
