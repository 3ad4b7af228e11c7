"""Topics, producers, consumers and what they account for: the only room that speaks Kafka."""
