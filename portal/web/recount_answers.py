"""JSON documents as files to download, in their canonical form: a hash of the file means something."""

from collections.abc import Mapping

from django.http import HttpResponse

from portal.billing.rules.statements import canonical


def download(document: Mapping[str, object], *, name: str) -> HttpResponse:
    """Answer the document as a file of this name."""
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return HttpResponse(canonical(document), content_type="application/json", headers=headers)
