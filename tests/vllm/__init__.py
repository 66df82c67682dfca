"""Tests against a real vLLM on the CPU: `make test-vllm` installs it; without it they are skipped with the reason."""
