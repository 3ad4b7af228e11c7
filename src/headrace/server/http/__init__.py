"""HTTP: connections, requests, routes, responses."""
