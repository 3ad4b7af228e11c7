"""Nexmark: persons, auctions and bids of an online auction house, and the queries over them."""
