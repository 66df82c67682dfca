"""What `doctor` looks at: these pass or fail and measure nothing."""

from poolhouse_common.check import Check, Subject


def _look(check: str, title: str, purpose: str, code: str) -> Check:
    return Check(check, 1, title, purpose, code, subject=Subject.NODE)


ENTRIES = (
    _look("system", "Operating system", "Linux on x86-64 or ARM, without WSL.", "platform_unsupported"),
    _look("python", "Python", "The agent's own Python is new enough.", "python_unsupported"),
    _look("memory", "Main memory", "Enough to load weights.", "memory_low"),
    _look("disk", "Disk space", "Room for weights, engines and logs.", "disk_space_low"),
    _look("packages", "Python packages", "Nothing shadows NVIDIA's bindings.", "deprecated_nvml_package"),
    _look("service", "systemd", "Starts the agent after a reboot.", "systemd_missing"),
    _look("gpu", "GPUs as the driver reads them", "Every GPU answers and has no fault.", "gpu_read_failed"),
    _look("gpu.driver", "NVIDIA driver", "The driver answers.", "nvml_error"),
    _look("gpu.cuda", "CUDA of the engine", "The driver's CUDA is new enough for the engine.", "cuda_version_low"),
    _look("engine", "Engine program", "A vLLM that is new enough is installed.", "engine_missing"),
    _look("weights", "Weights", "Folders of weights are there and hold no code.", "weights_missing"),
    _look("external", "External servers", "Servers that the owner named may be used.", "config_invalid"),
    _look("state", "State folder", "The agent can write it and nobody else can read its key.", "state_unwritable"),
    _look("membership", "Membership", "The machine has joined a pool.", "not_joined"),
    _look("portal", "The pool", "The pool answers, and the clocks agree.", "portal_unreachable"),
)
