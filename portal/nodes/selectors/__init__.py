"""Reads of the nodes' room."""
