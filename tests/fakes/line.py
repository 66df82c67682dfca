"""A tunnel's connection that hands what is written to a function."""

from collections.abc import Callable


class HandingLine:
    """It is never full and never ends."""

    is_full = False

    def __init__(self, take: Callable[[bytes], None]) -> None:
        self.write = take

    async def drain(self) -> None:
        """Wait for nothing."""

    async def close(self, code: int, reason: str) -> None:
        """Close nothing."""
