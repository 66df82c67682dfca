"""The first request to try, ready to paste."""

from django.conf import settings

from portal.catalog.models import CatalogModel, ModelState

KEY_PLACEHOLDER = "$POOL_KEY"


def curl_example(key: str = KEY_PLACEHOLDER) -> str:
    """Return a `curl` line that streams a short answer from the first active model."""
    model = CatalogModel.objects.filter(state=ModelState.ACTIVE).order_by("pk").first()
    name = model.public_id if model else "MODEL"
    body = f'{{"model": "{name}", "stream": true, "messages": [{{"role": "user", "content": "Say hello."}}]}}'
    return (
        f"curl -N {settings.GATEWAY_URL}/v1/chat/completions \\\n"
        f'  -H "Authorization: Bearer {key}" \\\n'
        f'  -H "Content-Type: application/json" \\\n'
        f"  -d '{body}'"
    )
