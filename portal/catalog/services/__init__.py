"""Writes of the catalogue."""
