"""What a machine fetches to install the agent: the script, filled in for this pool, and the files of a release."""

from django.http import Http404, HttpRequest, HttpResponse
from django.utils.cache import patch_cache_control
from django.views.decorators.http import require_safe

from portal.core import audience
from portal.core.errors import NotFound
from portal.nodes.models import AgentRelease
from portal.nodes.selectors import installer
from portal.nodes.selectors import releases as selectors

_YEAR_S = 31_536_000


@audience.declare(audience.PUBLIC)
@require_safe
def install_script(request: HttpRequest) -> HttpResponse:
    """The installer, or 404 where the operator has published no release."""
    release = selectors.to_install()
    if release is None:
        raise Http404("this pool serves no agent yet")
    response = HttpResponse(installer.script_for(release), content_type="text/x-shellscript; charset=utf-8")
    patch_cache_control(response, no_cache=True)
    return response


@audience.declare(audience.PUBLIC)
@require_safe
def release_file(request: HttpRequest, version: str, name: str) -> HttpResponse:
    """A file of a release; it never changes."""
    try:
        found = selectors.release(version)
    except NotFound as error:
        raise Http404(error.message) from error
    content = _content(found, name)
    response = HttpResponse(content, content_type="application/octet-stream")
    patch_cache_control(response, public=True, max_age=_YEAR_S, immutable=True)
    return response


def _content(release: AgentRelease, name: str) -> bytes:
    if name == "manifest.json":
        return bytes(release.manifest)
    if name == "manifest.sig" and release.signature:
        return release.signature.encode() + b"\n"
    if name == release.wheel_name:
        return bytes(release.wheel)
    if name == "requirements.txt":
        return bytes(release.requirements)
    raise Http404("the release has no such file")
