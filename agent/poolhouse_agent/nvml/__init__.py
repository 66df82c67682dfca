"""GPUs as NVIDIA's management library sees them: asked in a short-lived child, each value or the reason it is missing."""
