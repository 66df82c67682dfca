"""Questions about nodes that need no database."""
