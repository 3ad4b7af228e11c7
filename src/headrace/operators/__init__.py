"""State machines over the events of a key: windows, joins and patterns, independent of an engine."""
