"""All of Django's admin: tables to look things up. Nothing is changed here; changes go through services."""

from portal.operators.admin import accounts, catalogue, ledger, money, nodes, payouts, supply

__all__ = ["accounts", "catalogue", "ledger", "money", "nodes", "payouts", "supply"]
