"""Failures of installing and updating the agent itself."""

from poolhouse_common.failure import NODE, OPERATOR, PROVIDER, PROVIDER_NETWORK, Failure

ENTRIES = (
    Failure(
        "service_failed",
        NODE,
        "systemd refused",
        "A command of the service manager failed; the detail has its words.",
        "Correct what it names, then run the command again: it does no harm twice.",
    ),
    Failure(
        "not_installed",
        PROVIDER,
        "This agent was not installed by install.sh",
        "Updates need the folders that the installer makes, and this agent runs from somewhere else.",
        "Install it with the command of the pool's enrol page, or update it the way it was installed.",
    ),
    Failure(
        "release_key_missing",
        PROVIDER,
        "No release key was pinned",
        "The pool named no key when this agent was installed, so no release can be trusted.",
        "Run the pool's install command again once the operator signs releases; `--release-key` pins a key you know.",
    ),
    Failure(
        "release_signature_invalid",
        OPERATOR,
        "The release is not signed by the pinned key",
        "The portal offered a release whose manifest the key of this installation did not sign.",
        "Nothing was installed. Ask the operator; if the key was replaced, run the install command again.",
    ),
    Failure(
        "release_invalid",
        OPERATOR,
        "The release cannot be used",
        "Its manifest or a file is not what was signed, or it needs another Python or protocol than this machine has.",
        "Nothing was installed. Ask the operator; the detail says what differs.",
    ),
    Failure(
        "release_older",
        OPERATOR,
        "The release is not newer",
        "The portal offered a release that is not newer than the one that runs; old releases may have known holes.",
        "Nothing was installed. The operator must publish a higher version.",
    ),
    Failure(
        "release_unreachable",
        PROVIDER_NETWORK,
        "The release could not be fetched",
        "The portal or the package registry did not answer.",
        "Nothing was changed; it is tried again. Check that this machine reaches both over HTTPS.",
    ),
    Failure(
        "release_not_built",
        NODE,
        "The new version could not be installed",
        "Making its venv or installing its packages failed; the detail has the last words.",
        "The running version goes on. Free disk space, check the package registry, then `poolhouse-agent update now`.",
    ),
    Failure(
        "release_rolled_back",
        NODE,
        "The new version did not reach the pool and was taken back",
        "After the update there was no session or no tunnel in time, so the version before runs again.",
        "Nothing to do: this version is not tried again. Look at `journalctl -u poolhouse-agent` for why.",
    ),
    Failure(
        "update_running",
        NODE,
        "Another update has not ended",
        "One update runs at a time, and one runs now: it waits until the new version has reached the pool.",
        "Wait some minutes; `journalctl -u poolhouse-update` shows how far it is.",
    ),
    Failure(
        "updates_held",
        PROVIDER,
        "The owner holds updates back",
        "`poolhouse-agent update hold` was run on the machine, and the pool overrules nobody.",
        "`poolhouse-agent update allow` lets them come again; `poolhouse-agent update now` takes one.",
    ),
    Failure(
        "updates_manual",
        PROVIDER,
        "Updates do not come by themselves",
        "This agent was not installed by install.sh, or the pool named no release key when it was.",
        "Run the command of the pool's enrol page on the machine again, or update it the way it was installed.",
    ),
    Failure(
        "agent_outdated",
        PROVIDER,
        "This agent is too old for the pool",
        "Agent and portal understand each other one minor version apart; this agent is further behind.",
        "Let updates come (`poolhouse-agent update allow`) or run the pool's install command again.",
    ),
    Failure(
        "agent_ahead",
        OPERATOR,
        "This agent is newer than the pool",
        "Agent and portal understand each other one minor version apart; this agent is further ahead.",
        "Upgrade the portal, or install the agent that it serves.",
    ),
)
