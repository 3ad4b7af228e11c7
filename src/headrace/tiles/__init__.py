"""The feature kernel: hop, tile, merge, finish, with numpy and datasketches only."""
