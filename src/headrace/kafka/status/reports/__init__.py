"""The reports of parts, queries, connectors, the lake and models: a class per kind."""
