"""Receipts: what this node served, signed by it and counter-signed by the portal, kept on this machine."""
