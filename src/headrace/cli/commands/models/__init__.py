"""Commands about models and their features."""
