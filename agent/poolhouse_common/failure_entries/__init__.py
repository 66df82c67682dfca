"""The entries of the failure catalogue, one module a subject."""
