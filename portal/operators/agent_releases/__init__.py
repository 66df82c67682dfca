"""Releases of the agent: built from this checkout, signed with an offline key, rolled out from the console."""
