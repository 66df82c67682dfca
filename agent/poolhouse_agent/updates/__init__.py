"""The agent replaces itself: a signed release is installed beside the running one, tried, and taken back if need be."""
