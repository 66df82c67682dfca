"""The agent: joins a machine to a pool, reports its hardware and serves its engine through one tunnel."""

VERSION = "0.1.0"
PROTOCOL = 1
