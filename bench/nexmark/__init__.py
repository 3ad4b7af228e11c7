"""Nexmark: persons, auctions and bids of an online auction house, and the questions asked of them as they come."""
