"""Writes of the payouts room."""
