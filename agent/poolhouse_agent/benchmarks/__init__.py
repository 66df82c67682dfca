"""Benchmarks: what GPUs, disk, network and engine really do, measured by demanding work of them."""
