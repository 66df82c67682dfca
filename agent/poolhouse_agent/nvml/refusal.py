"""Whether this machine's GPUs are of a kind that cannot serve yet."""

from poolhouse_common import gpu_faults

from poolhouse_agent.errors import ConfigError
from poolhouse_agent.nvml.inventory import GpuReport


def require_servable(report: GpuReport) -> None:
    """Raise ConfigError with the reason where there are GPUs and none of them can serve, whatever the owner does.

    A machine without any GPU, or with a driver that can be mended, is not refused.
    """
    refused = [error for error in report.errors if error["code"] in gpu_faults.REFUSALS]
    unfit = {error["detail"] for error in refused}
    if refused and all(gpu["uuid"] in unfit for gpu in report.gpus):
        named = {gpu["uuid"]: gpu["name"] for gpu in report.gpus}
        first = refused[0]
        raise ConfigError(first["code"], " ".join(filter(None, (named.get(first["detail"], ""), first["detail"]))))
