"""`make fleet`: a thousand simulated nodes against a whole pool on two cores."""
