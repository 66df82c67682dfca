"""GPUs as NVIDIA's management library sees them: read in a short-lived child; each value, or why not."""
