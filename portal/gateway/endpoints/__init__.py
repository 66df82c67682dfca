"""The metered endpoints: each translates its customers' words to a node's and back, and does nothing else."""
