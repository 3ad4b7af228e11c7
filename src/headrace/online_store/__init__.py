"""The online store: tiles by entity, applied from the changelog."""
