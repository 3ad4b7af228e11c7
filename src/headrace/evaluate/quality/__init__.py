"""Quality as tiles: what outcomes say of a model, minute by minute, in integers that add up in any order."""
