"""What agent and portal both rely on; no dependencies."""
