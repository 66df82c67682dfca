"""The systemd units: their texts, and what the processes inside them do for systemd."""
