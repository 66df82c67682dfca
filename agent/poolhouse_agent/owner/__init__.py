"""The owner is the boss: when this machine serves, what it may use, and what gives way to the owner's own work."""
