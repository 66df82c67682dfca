"""What the owner of a machine decided, and what stands in the way of it."""

from poolhouse_common.failure import NODE, PROVIDER, Failure

ENTRIES = (
    Failure(
        "owner_paused",
        PROVIDER,
        "The owner has paused this machine",
        "`poolhouse-agent pause` was given: no new requests, and the GPUs are free for other work.",
        "Run `poolhouse-agent resume` on the machine, or wait until the pause is over.",
    ),
    Failure(
        "owner_quiet_hours",
        PROVIDER,
        "The owner's quiet hours",
        "The machine rests at these times of its owner's choice.",
        "Nothing to do: it comes back by itself. `poolhouse-agent schedule` shows and changes the hours.",
    ),
    Failure(
        "owner_outside_schedule",
        PROVIDER,
        "Outside the owner's schedule",
        "The owner lets this machine serve at other times.",
        "Nothing to do: it comes back by itself. `poolhouse-agent schedule` shows and changes the times.",
    ),
    Failure(
        "owner_uses_gpu",
        PROVIDER,
        "The owner uses a GPU",
        "A process that is not the agent's runs on a GPU, and the owner's own work comes first.",
        "Nothing to do: it comes back a minute after that process has ended. A process that may run beside the pool is "
        "named in `yield_ignore` of [owner].",
    ),
    Failure(
        "power_cap_not_permitted",
        NODE,
        "The power cap needs administrator rights",
        "NVIDIA's driver lets only an administrator set a power limit, and the agent runs without such rights.",
        "Run `sudo poolhouse-agent power apply` after each start of the machine; `service install` does it for you.",
    ),
    Failure(
        "power_cap_out_of_range",
        PROVIDER,
        "The GPU does not take this power limit",
        "The cap lies outside what the card allows; the detail names its range. Nothing was changed.",
        "Choose a cap within the range: `poolhouse-agent limits set --power-cap WATT`.",
    ),
    Failure(
        "power_cap_unsupported",
        NODE,
        "The GPU has no power limit to set",
        "Laptop and some embedded GPUs are limited by the machine's firmware.",
        "Remove the cap: `poolhouse-agent limits clear power-cap`.",
    ),
    Failure(
        "power_cap_failed",
        NODE,
        "The power limit was not taken",
        "NVIDIA's driver refused or did not keep the limit; the detail says what it answered.",
        "Run `nvidia-smi -q -d POWER` to see what holds it; another tool may set limits too.",
    ),
    Failure(
        "download_quota_reached",
        PROVIDER,
        "The owner's download quota is used up",
        "Fetching these weights would go beyond what the owner allows in a day or a month.",
        "Wait for the next day or month, or raise it: `poolhouse-agent limits set --download-day SIZE`.",
    ),
    Failure(
        "agent_silent",
        NODE,
        "The agent runs but says nothing",
        "The agent holds its state folder, but has not written its status for a while: it may hang or be starting.",
        "Look at its log: `journalctl -u poolhouse-agent`. If it lasts, restart it.",
    ),
)
