"""Operations on streams: windows, joins, patterns, enrichments and derived streams."""
