"""Engines: what answers requests on this machine, and how the agent starts, watches and stops it."""
