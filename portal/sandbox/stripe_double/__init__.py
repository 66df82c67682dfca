"""A stand-in for Stripe: the calls this software makes, with Stripe's rules and without its money."""

from portal.sandbox.stripe_double.server import StripeDouble

__all__ = ["StripeDouble"]
