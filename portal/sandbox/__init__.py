"""The demo's and the tests' world: embedded servers, the supervisor, the Stripe stand-in. Never in production."""
