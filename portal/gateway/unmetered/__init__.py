"""Endpoints that cost nothing: behind the same door and limits as the others, without a hold and without a node."""
