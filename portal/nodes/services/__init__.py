"""Writes of the nodes' room."""
