"""The entries of the list of checks, by what they look at."""
