"""The URL table of the portal. The gateway's `/v1` is not here: it is an ASGI application of its own."""

from django.urls import URLPattern, URLResolver, include, path

from portal.api import health, metrics
from portal.api.agent.releases import install_script
from portal.operators.admin.site import site as operator_tables

urlpatterns: list[URLPattern | URLResolver] = [
    path("", include("portal.web.public.urls")),
    path("accounts/", include("portal.web.organization.urls")),
    path("accounts/", include("allauth.urls")),
    path("customer/", include("portal.web.customer.urls")),
    path("provider/", include("portal.web.provider.urls")),
    path("operator/tables/", operator_tables.urls),
    path("operator/", include("portal.operators.urls")),
    path("agent/v1/", include("portal.api.agent.urls")),
    path("agent/install.sh", install_script, name="agent-install-script"),
    path("api/", include("portal.api.schema")),
    path("webhooks/", include("portal.webhooks.urls")),
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("metrics", metrics.metrics, name="metrics"),
    path("metrics/nodes", metrics.node_metrics, name="node-metrics"),
]
