"""Answers, streams and failed starts of a real vLLM 0.32.0 on the CPU with a tiny model. The texts are word salad."""
