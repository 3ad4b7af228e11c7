"""The reports of parts, queries, connectors, the lake and models: a kind each, in files by their subject."""
