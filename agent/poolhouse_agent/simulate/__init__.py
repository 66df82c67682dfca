"""A stand-in for vLLM that speaks its API with its quirks, and GPUs that are not there. For demos and tests."""
