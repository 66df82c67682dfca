"""Questions about providers that need no database."""
