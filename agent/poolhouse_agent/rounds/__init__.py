"""Rounds of checks that the portal asks of a running agent."""
