"""The demo serves the agent of this checkout, so that the enrol page shows the command that a real machine runs.

Runs as a program, inside the supervisor's environment.
"""

import django


def publish() -> None:
    """Build this checkout's agent and serve it in place of an earlier build of the same version."""
    from django.conf import settings

    from portal.audit.services import SYSTEM_ACTOR
    from portal.core import clock
    from portal.nodes.models import AgentRelease, ReleaseRing
    from portal.nodes.services import releases
    from portal.operators.agent_releases import building, signing

    built = building.build(settings.BASE_DIR / "agent", license_file=settings.BASE_DIR / "LICENSE")
    manifest = signing.manifest(built)
    kept = AgentRelease.objects.filter(version=built.version).first()
    if kept is not None and bytes(kept.manifest) != manifest:
        kept.delete()
    files = releases.Files(manifest=manifest, signature="", wheel=built.wheel, requirements=built.requirements)
    releases.publish(files=files, ring=ReleaseRing.ALL, percent=100, actor=SYSTEM_ACTOR, now=clock.now())


if __name__ == "__main__":
    django.setup()
    publish()
