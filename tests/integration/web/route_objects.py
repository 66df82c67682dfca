"""For each route with arguments: how to make an object of the given team and name it in the URL.

Add one line when you add a route with arguments; tests/integration/web/test_route_matrix.py fails without it.
"""

from collections.abc import Callable

from tests.factories.accounts import ApiKeyFactory, InvitationFactory
from tests.factories.billing import PricedModelFactory, buy
from tests.world import Team, World

Maker = Callable[[World, Team], dict[str, object]]

OBJECTS: dict[str, Maker] = {
    "account_confirm_email": lambda world, team: {"key": "unknown"},
    "account_reset_password_from_key": lambda world, team: {"uidb36": "1", "key": "unknown"},
    "customer:key-revoke": lambda world, team: {"key": ApiKeyFactory(organization=team.organization).public_id},
    "mfa_edit_webauthn": lambda world, team: {"pk": 1},
    "mfa_remove_webauthn": lambda world, team: {"pk": 1},
    "operators:model-prices": lambda world, team: {"model_id": PricedModelFactory().pk},
    "operators:transaction": lambda world, team: {"tx_id": buy(team.organization, amount=1).pk},
    "operators:customer": lambda world, team: {"organization": team.organization.public_id},
    "organization:accept-invitation": lambda world, team: {"token": "unknown"},
    "organization:change-role": lambda world, team: {"user": team.reader.public_id},
    "organization:invitation": lambda world, team: {"token": "unknown"},
    "organization:remove-member": lambda world, team: {"user": team.reader.public_id},
    "organization:revoke-invitation": lambda world, team: {
        "invitation": InvitationFactory(organization=team.organization, invited_by=team.owner).pk
    },
}
