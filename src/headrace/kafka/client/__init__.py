"""How clients reach a broker: configuration, authentication, and why they could not."""
