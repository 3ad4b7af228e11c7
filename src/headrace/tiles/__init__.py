"""The kernel of features: hop, tile, merge, finish, in numpy and datasketches only."""
