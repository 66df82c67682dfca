"""What the planner refuses: each with a code of the failure catalogue."""


class PlanError(Exception):
    """A model or machine that no plan can be made for; `code` is of the failure catalogue, `detail` says what is so."""

    def __init__(self, code: str, detail: str = "") -> None:
        super().__init__(f"{code}: {detail}" if detail else code)
        self.code = code
        self.detail = detail


class ConfigRefused(PlanError):
    """The config.json is no description of a model that can be planned for."""


class GpusRefused(PlanError):
    """The GPUs as they were named cannot be planned for."""
