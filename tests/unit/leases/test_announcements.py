"""Who is short of a budget calls in that budget alone; credit goes by its organization."""

from portal.billing.rules import leasing


def test_an_announcement_names_a_budget_or_an_organizations_credit():
    assert leasing.budget_owner(leasing.budget_subject("key7f3")) == "key7f3"
    assert leasing.budget_owner(leasing.budget_subject("42")) == "42"
    assert leasing.budget_owner("42") is None
