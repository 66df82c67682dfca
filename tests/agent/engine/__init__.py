"""Engine care: start, watch, adopt, change, end."""
