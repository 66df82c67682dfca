"""Where a live node stands, from what is known of it: one question, asked at every heartbeat."""

from dataclasses import dataclass

from poolhouse_common import failures

# Why an owner may keep a machine; any other word of an agent reads as a plain drain.
OWNER_CODES = frozenset({"owner_paused", "owner_quiet_hours", "owner_outside_schedule", "owner_uses_gpu"})


@dataclass(frozen=True, slots=True)
class DeploymentFact:
    """One deployment, whether it should run, and what the node says of it."""

    is_wanted: bool
    observed: str
    code: str
    running: int


@dataclass(frozen=True, slots=True)
class Facts:
    """All that decides where a node stands."""

    provider_state: str
    is_agreement_accepted: bool
    is_drain_wanted: bool
    is_inventory_known: bool
    gpu_errors: tuple[str, ...]
    deployments: tuple[DeploymentFact, ...]
    owner_code: str = ""
    failed_checks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Standing:
    """A node state with its code; where the fault lies comes from the failure catalogue."""

    state: str
    code: str

    @property
    def cause(self) -> str:
        """Who must act."""
        return failures.explain(self.code).source


def standing(facts: Facts) -> Standing:
    """Return where the node stands."""
    if facts.is_drain_wanted:
        is_busy = any(deployment.running for deployment in facts.deployments)
        code = facts.owner_code if facts.owner_code in OWNER_CODES else ""
        if is_busy:
            return Standing("draining", code or "drain_requested")
        return Standing("maintenance", code or "drained")
    if not facts.is_inventory_known:
        return _broken(facts) or Standing("checking", "waiting_for_inventory")
    return _not_allowed(facts) or _unfit(facts) or _served(facts)


def _not_allowed(facts: Facts) -> Standing | None:
    if facts.provider_state == "suspended":
        return Standing("ready", "provider_suspended")
    if facts.provider_state != "approved":
        return Standing("ready", "provider_not_approved")
    if not facts.is_agreement_accepted:
        return Standing("ready", "agreement_missing")
    return None


def _served(facts: Facts) -> Standing:
    wanted = [deployment for deployment in facts.deployments if deployment.is_wanted]
    observed = {deployment.observed for deployment in wanted}
    if not observed:
        return _broken(facts) or Standing("ready", "no_deployment")
    if "ready" in observed:
        return Standing("serving", "serving")
    for deployment in wanted:
        if deployment.observed == "failed":
            return Standing("degraded", deployment.code or "deployment_failed")
        if deployment.observed == "stuck":
            return Standing("degraded", deployment.code or "engine_stuck")
    return _broken(facts) or Standing(
        "ready", "deployment_starting" if "starting" in observed else "deployment_pending"
    )


def _unfit(facts: Facts) -> Standing | None:
    """An enforced check that fails keeps the node from work whatever it serves."""
    return Standing("degraded", facts.failed_checks[0]) if facts.failed_checks else None


def _broken(facts: Facts) -> Standing | None:
    return Standing("degraded", facts.gpu_errors[0]) if facts.gpu_errors else None
