"""The shape of one check: what it is called, what it demands, in which unit its figure is."""

from dataclasses import dataclass
from enum import StrEnum


class Subject(StrEnum):
    """What one result of a check is about."""

    NODE = "node"
    GPU = "gpu"
    MODEL = "model"


@dataclass(frozen=True, slots=True)
class Check:
    """One check. `version` rises when its figures can no longer be compared with older ones.

    `unit` is empty where a check only passes or fails. `fail_limit_milli` and `warn_limit_milli` are in thousandths
    of the unit and hold on every machine: the least or, where lower is better, the most. A check that `is_compared` is
    held against the reference figure of its hardware instead. `code` is the failure of a figure beyond its limit.
    """

    id: str
    version: int
    title: str
    purpose: str
    code: str
    subject: Subject = Subject.GPU
    unit: str = ""
    is_higher_better: bool = True
    is_compared: bool = False
    fail_limit_milli: int | None = None
    warn_limit_milli: int | None = None
