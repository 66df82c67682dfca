"""Reads of the providers' room."""
