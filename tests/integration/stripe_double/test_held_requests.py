"""A request can be held before or after it acts: another caller meets it, or its own caller is gone meanwhile."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from portal.integrations.stripe_errors import PaymentOutcomeUnknown
from portal.integrations.stripe_types import CustomerOrder

ORDER = CustomerOrder("org_1", "Acme", "a@example.com")


@pytest.mark.parametrize(("when", "made"), [("before", 0), ("after", 1)])
def test_a_second_caller_meets_the_first_in_progress(till, when, made):
    till.double.control("fail", path="/v1/customers", kind="hold", when=when)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(till.door.create_customer, key="c", order=ORDER)
        assert till.double.control("gate/held") == {"held": ["/v1/customers"]}

        with pytest.raises(PaymentOutcomeUnknown) as refused:
            till.door.create_customer(key="c", order=ORDER)
        assert refused.value.stripe_code == "idempotency_key_in_use"
        assert len(till.double.store.all("customer")) == made

        assert till.double.control("gate/open") == {"let_go": ["/v1/customers"]}
        customer = first.result()

    assert [one["id"] for one in till.double.store.all("customer")] == [customer]
    assert till.door.create_customer(key="c", order=ORDER) == customer


def test_nothing_is_held_without_being_asked_to(till):
    assert till.double.control("gate/held", timeout_s=0) == {"held": []}
    assert till.double.control("gate/open") == {"let_go": []}
