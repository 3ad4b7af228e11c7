"""SQL over the lake and the live tables: read-only, limited, and in a process of its own beside the server."""
