"""`make bench`: what the gateway costs beside its peers, in one run on one machine."""
