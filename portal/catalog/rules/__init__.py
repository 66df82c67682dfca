"""Questions about models that need no database: rendering, overheads, arguments, states."""
