"""Models and their artefacts."""

from portal.catalog.models import Artefact, CatalogModel, GpuFigures
from portal.operators.admin.look_up import show

show(Artefact, "sha256", "kind", "created_at", search=("sha256",), hidden=("content",))
show(CatalogModel, "public_id", "name", "state", "licence", "created_at", search=("public_id",), filters=("state",))
show(GpuFigures, "name", "memory_mib", "bandwidth_gbps", "watts", "changed_at", search=("name",))
