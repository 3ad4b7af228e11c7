"""Functions that count: events, different values, and how often each value comes."""
