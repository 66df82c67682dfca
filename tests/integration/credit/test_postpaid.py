"""Paying afterwards: drawn last, to the limit and no nano further, billed by the month, settled oldest first."""

from datetime import UTC, datetime, timedelta

import pytest

from portal.audit.models import AuditEvent
from portal.audit.services import SYSTEM_ACTOR
from portal.billing.models import CreditLease, LedgerAccount, PostpaidBill
from portal.billing.rules.leasing import Ask
from portal.billing.selectors import balances, transactions
from portal.billing.selectors import postpaid as selectors
from portal.billing.services import bank_transfers, leases, posting, postpaid, postpaid_bills, reconcile, statements
from portal.billing.services.bank_transfers import Line
from portal.billing.services.postpaid import LimitInUse, NothingOffered, Terms
from portal.billing.services.postpaid_bills import BillSettled, OlderBillOpen
from portal.core.errors import InvalidValue
from portal.notifications.models import Message
from tests.factories.accounts import OrganizationFactory, UserFactory
from tests.factories.billing import OPENED, Market, buy
from tests.factories.payouts import balance_of
from tests.integration.credit import saving

pytestmark = pytest.mark.django_db

UNIT = 1_000_000_000
DAY = timedelta(days=1)
DECEMBER = datetime(2026, 12, 2, 1, tzinfo=UTC)


def invite(organization, *, limit=10 * UNIT, now, accept=True):
    operator, owner = UserFactory(is_operator=True), UserFactory()
    row = postpaid.offer(
        organization=organization,
        terms=Terms(limit_nano=limit, due_days=14),
        operator=operator,
        actor=SYSTEM_ACTOR,
        now=now,
    )
    if accept:
        row = postpaid.accept(organization=organization, user=owner, actor=SYSTEM_ACTOR, now=now)
    return row


@pytest.fixture
def market(now):
    """A market whose customer has no credit and may owe 10."""
    found = Market(paid_nano=0, lease_nano=0)
    saving.Membership.objects.create(organization=found.customer, user=UserFactory(), role="owner", created_at=now)
    invite(found.customer, now=now)
    return found


def draw(market, nano, *, at, now=None):
    """Serve one request that costs so much, from the line."""
    market.leases = market.lease(nano)
    market.serve(charge_nano=nano, closed_at=at)
    posting.post_usage(now=now or at + timedelta(minutes=1))


def standing(organization):
    found = balances.customer_balance(organization=organization.public_id)
    return found.limit_nano, found.line_nano, found.drawn_nano


def pay(organization, minor, now, key="1"):
    line = Line(reference=f"PAY-{key}", amount_minor=minor, received_on=now.date(), payer="ACME")
    bank_transfers.enter(
        organization=organization, line=line, operator=UserFactory(is_operator=True), actor=SYSTEM_ACTOR, now=now
    )


def bill(market, period_at, now):
    """Close the month and make its bill."""
    statements.freeze_month(now=now)
    postpaid_bills.make_due(now=now)
    return PostpaidBill.objects.filter(starts_at=period_at).first()


def test_an_offer_changes_nothing_until_it_is_accepted(now):
    organization = OrganizationFactory()
    invite(organization, now=now, accept=False)

    assert standing(organization) == (0, 0, 0)
    postpaid.accept(organization=organization, user=UserFactory(), actor=SYSTEM_ACTOR, now=now)
    assert standing(organization) == (10 * UNIT, 10 * UNIT, 0)
    with pytest.raises(NothingOffered):
        postpaid.accept(organization=organization, user=UserFactory(), actor=SYSTEM_ACTOR, now=now)
    assert standing(organization) == (10 * UNIT, 10 * UNIT, 0)


def test_who_was_not_invited_cannot_accept(now):
    with pytest.raises(NothingOffered):
        postpaid.accept(organization=OrganizationFactory(), user=UserFactory(), actor=SYSTEM_ACTOR, now=now)
    assert not LedgerAccount.objects.exists()


@pytest.mark.parametrize("changes", [{"limit_nano": 0}, {"due_days": 0}, {"due_days": 121}])
def test_terms_that_cannot_be_are_refused(now, changes):
    with pytest.raises(InvalidValue):
        postpaid.offer(
            organization=OrganizationFactory(),
            terms=Terms(**({"limit_nano": UNIT, "due_days": 14} | changes)),
            operator=UserFactory(),
            actor=SYSTEM_ACTOR,
            now=now,
        )
    assert AuditEvent.objects.count() == 0


def test_the_line_is_spent_after_gift_and_paid_credit(now):
    market = Market(paid_nano=2_000, promo_nano=1_000, lease_nano=0)
    invite(market.customer, now=now, limit=5_000)

    granted = leases.grant(organization_id=market.customer.pk, spool_id=market.spool.pk, ask=Ask(4_000, 1), now=OPENED)

    kinds = dict(CreditLease.objects.values_list("pk", "account__kind"))
    assert [(kinds[row.lease_id], row.granted) for row in granted.leases] == [
        ("promo_credit", 1_000),
        ("customer_credit", 2_000),
        ("postpaid_line", 1_000),
    ]
    assert granted.balance_nano == 8_000


def test_what_is_drawn_is_owed_and_the_books_are_sound(market, now):
    draw(market, 3 * UNIT, at=now)

    assert standing(market.customer) == (10 * UNIT, 7 * UNIT, 3 * UNIT)
    assert [one for one in reconcile.differences(now=now) if one.code != "charge_differs_from_price"] == []
    shown = transactions.customer_movements(organization=market.customer.public_id, with_usage=True)
    assert [(row.kind, row.amount_nano) for row in shown] == [("usage", -3 * UNIT)]


def test_a_limit_rises_at_once_and_falls_to_what_is_drawn_and_held(market, now):
    draw(market, 3 * UNIT, at=now)
    (lease,) = market.lease(2 * UNIT)

    invite(market.customer, limit=20 * UNIT, now=now, accept=False)
    assert standing(market.customer) == (20 * UNIT, 17 * UNIT, 3 * UNIT)
    with pytest.raises(LimitInUse):
        invite(market.customer, limit=5 * UNIT - 1, now=now, accept=False)
    assert standing(market.customer) == (20 * UNIT, 17 * UNIT, 3 * UNIT)
    invite(market.customer, limit=5 * UNIT, now=now, accept=False)
    assert standing(market.customer) == (5 * UNIT, 2 * UNIT, 3 * UNIT)
    assert lease.granted - lease.used == 2 * UNIT


def test_money_that_comes_in_pays_what_was_drawn_and_the_rest_is_credit(market, now):
    draw(market, 3 * UNIT, at=now)

    pay(market.customer, 400, now)

    assert standing(market.customer) == (10 * UNIT, 10 * UNIT, 0)
    assert balance_of("customer_credit", market.customer.public_id) == UNIT


def test_a_month_becomes_one_bill_with_its_statement(market, now):
    draw(market, 3 * UNIT, at=now)

    made = bill(market, datetime(2026, 11, 1, tzinfo=UTC), DECEMBER)

    assert (made.drawn_nano, made.total_drawn_nano, made.due_nano) == (3 * UNIT, 3 * UNIT, 3 * UNIT)
    assert made.due_at == DECEMBER + 14 * DAY
    assert made.statement.party == market.customer.public_id
    assert bill(market, made.starts_at, DECEMBER + DAY).pk == made.pk
    assert PostpaidBill.objects.count() == 1
    assert Message.objects.filter(template="bill_made").count() == 1
    assert [one for one in reconcile.differences(now=DECEMBER) if one.code != "charge_differs_from_price"] == []


# killbill#1981, lago#879: a time zone decides in which bill the last second is
@pytest.mark.parametrize(("seconds", "month"), [(-1, 11), (0, 12)])
def test_the_last_second_of_a_month_is_billed_once_in_its_own_month(market, seconds, month):
    end = datetime(2026, 12, 1, tzinfo=UTC)
    draw(market, UNIT, at=end + timedelta(seconds=seconds), now=end + timedelta(hours=1))

    bill(market, end, DECEMBER)
    bill(market, end, datetime(2027, 1, 2, 1, tzinfo=UTC))

    assert [(row.starts_at.month, row.drawn_nano) for row in PostpaidBill.objects.all()] == [(month, UNIT)]


def test_nothing_drawn_is_no_bill(market, now):
    assert bill(market, datetime(2026, 11, 1, tzinfo=UTC), DECEMBER) is None
    assert PostpaidBill.objects.count() == 0


def test_what_was_paid_during_the_month_is_not_due(market, now):
    draw(market, 3 * UNIT, at=now)
    pay(market.customer, 300, now)

    made = bill(market, datetime(2026, 11, 1, tzinfo=UTC), DECEMBER)

    assert (made.drawn_nano, made.due_nano, made.settled_at) == (3 * UNIT, 0, DECEMBER)
    assert Message.objects.count() == 0


def two_bills(market, now):
    draw(market, 3 * UNIT, at=now)
    first = bill(market, datetime(2026, 11, 1, tzinfo=UTC), DECEMBER)
    draw(market, 2 * UNIT, at=DECEMBER)
    january = datetime(2027, 1, 2, 1, tzinfo=UTC)
    return first, bill(market, datetime(2026, 12, 1, tzinfo=UTC), january), january


def opened(*bills):
    return [selectors.with_open([row])[0].open_nano for row in bills]


def test_a_payment_settles_the_oldest_bill_first(market, now):
    first, second, january = two_bills(market, now)
    assert (opened(first, second), second.due_nano) == ([3 * UNIT, 2 * UNIT], 2 * UNIT)

    pay(market.customer, 200, january, key="1")
    assert opened(first, second) == [UNIT, 2 * UNIT]
    pay(market.customer, 150, january, key="2")
    assert opened(first, second) == [0, 2 * UNIT - UNIT // 2]
    pay(market.customer, 150, january, key="3")
    assert opened(first, second) == [0, 0]

    postpaid_bills.watch(now=january)
    assert PostpaidBill.objects.filter(settled_at=january).count() == 2


def test_an_overdue_bill_stops_the_line_until_it_is_paid(market, now):
    draw(market, 3 * UNIT, at=now)
    made = bill(market, datetime(2026, 11, 1, tzinfo=UTC), DECEMBER)
    (held,) = market.lease(UNIT)
    assert postpaid_bills.watch(now=made.due_at - timedelta(seconds=1)) == 0

    assert postpaid_bills.watch(now=made.due_at) == 1
    assert postpaid_bills.watch(now=made.due_at + DAY) == 0

    held.refresh_from_db()
    assert (selectors.terms_of(organization=market.customer).state, held.state) == ("stopped", "closing")
    refused = leases.grant(organization_id=market.customer.pk, spool_id=market.spool.pk, ask=Ask(1, 1), now=made.due_at)
    assert (refused.leases, refused.balance_nano) == ((), 0)
    assert Message.objects.filter(template="bill_overdue").count() == 1

    pay(market.customer, 300, made.due_at)
    assert postpaid_bills.watch(now=made.due_at + DAY) == 1
    assert selectors.terms_of(organization=market.customer).state == "active"
    assert market.lease(UNIT)


def test_a_write_off_is_a_loss_and_lends_nothing_again(market, now):
    first, second, january = two_bills(market, now)
    with pytest.raises(OlderBillOpen):
        postpaid_bills.write_off(public_id=second.public_id, reason="gone", actor=SYSTEM_ACTOR, now=january)
    assert balance_of("bad_debt") == 0

    postpaid_bills.write_off(public_id=first.public_id, reason="bankrupt", actor=SYSTEM_ACTOR, now=january)
    with pytest.raises(BillSettled):
        postpaid_bills.write_off(public_id=first.public_id, reason="again", actor=SYSTEM_ACTOR, now=january)

    assert balance_of("bad_debt") == 3 * UNIT
    assert standing(market.customer) == (7 * UNIT, 5 * UNIT, 2 * UNIT)
    assert opened(first, second) == [0, 2 * UNIT]
    assert market.lease(1) == []
    assert AuditEvent.objects.get(event="bill.written_off").detail == {"nano": str(3 * UNIT), "reason": "bankrupt"}
    assert [one for one in reconcile.differences(now=january) if one.code != "charge_differs_from_price"] == []


def test_an_end_lets_nothing_more_be_drawn_and_the_rest_is_billed(market, now):
    draw(market, 3 * UNIT, at=now)
    postpaid.end(organization=market.customer, reason="by agreement", actor=SYSTEM_ACTOR, now=now)

    assert market.lease(1) == []
    assert bill(market, datetime(2026, 11, 1, tzinfo=UTC), DECEMBER).due_nano == 3 * UNIT
    buy(market.customer, amount=1, now=DECEMBER)
    assert len(market.lease(1)) == 1
