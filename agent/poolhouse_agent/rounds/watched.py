"""Who watches a suite within a running agent: remembers what is being measured."""

from poolhouse_agent.benchmarks.step import Step


class Watched:
    """Keeps the title of the step; the portal hears of it with the next report."""

    def __init__(self) -> None:
        self.title = ""

    def begin(self, step: Step, number: int, count: int) -> None:
        """Remember the step."""
        self.title = f"{number}/{count} {step.title}"

    def say(self, share: float) -> None:
        """Nothing: reports are by the step."""

    def end(self) -> None:
        """Nothing to take away."""
