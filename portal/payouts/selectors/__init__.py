"""Reads of the payouts room."""
