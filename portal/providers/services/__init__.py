"""Writes of the providers' room."""
