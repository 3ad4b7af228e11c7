"""The online table: tiles by entity, in memory or in Redis, and the workers that keep it."""
