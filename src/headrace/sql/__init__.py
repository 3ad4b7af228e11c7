"""SQL over the lake and the live tables: read-only, limited, and in a separate process beside the server."""
