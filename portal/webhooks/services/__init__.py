"""Writes of the webhooks room."""
