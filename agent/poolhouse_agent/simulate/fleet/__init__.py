"""A whole fleet on one machine: many agents of the real protocol in one process, each with a character of its own."""
