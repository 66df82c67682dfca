"""Python's garbage collector, told what a long-lived process is: much stays for ever, and requests leave little."""

import gc
from typing import Final

# Requests free themselves by counting references; what is left for the collector are rare cycles (exceptions, tasks).
# To look for them after every 700 new objects, through all of Django's, was a fifth of a gateway's time; in a portal
# each look held up every thread for 0.1 to 0.4 s, in a simulator of a thousand nodes for half a second.
_YOUNG_OBJECTS: Final = 25_000
_GENERATIONS: Final = 20


def settle() -> None:
    """Take what lives now out of every later collection, and collect seldom. Call it once the process has started."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS, _GENERATIONS, _GENERATIONS)
