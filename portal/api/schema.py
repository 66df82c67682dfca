"""The OpenAPI schema and its page: no inline script or style, all assets from the portal itself."""

from typing import Any

from django.urls import URLPattern, path
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView

from portal.core import audience


class SchemaView(SpectacularAPIView):
    """Serves the schema as JSON or YAML."""

    authentication_classes: tuple[Any, ...] = ()


class DocsView(SpectacularSwaggerSplitView):
    """Shows the schema."""

    authentication_classes: tuple[Any, ...] = ()
    template_name = "api/docs.html"
    title = "Poolhouse API"
    url_name = "api-schema"


_public = audience.declare(audience.PUBLIC)

urlpatterns: list[URLPattern] = [
    path("schema/", _public(SchemaView.as_view()), name="api-schema"),
    path("docs/", _public(DocsView.as_view()), name="api-docs"),
]
