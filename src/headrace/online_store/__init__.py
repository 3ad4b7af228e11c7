"""The online store: tiles by entity, kept fresh from the changelog."""
