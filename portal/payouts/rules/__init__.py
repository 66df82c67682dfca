"""Questions of the payouts room; no I/O."""
