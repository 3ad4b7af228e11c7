"""Events in plain Python: parsed, admitted, and held as columns."""
