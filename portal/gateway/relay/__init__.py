"""Carries a node's answer to the customer: in pieces or whole, never replayed, never passed through as it came."""
