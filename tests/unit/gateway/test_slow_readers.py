"""A customer who stops reading is cut; one who reads, however often he makes us wait, is not."""

import asyncio

import pytest

from portal.gateway import exchange
from portal.gateway.exchange import CustomerGone
from tests.fakes.customer import Customer


async def test_a_customer_who_reads_nothing_is_cut_after_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "WRITE_TIMEOUT_S", 0.05)
    customer = Customer()
    await customer.exchange.start(200, [])
    customer.may_read.clear()

    with pytest.raises(CustomerGone):
        await customer.exchange.write(b"Hello")

    assert customer.exchange.is_gone
    assert customer.text == ""
    with pytest.raises(CustomerGone):
        await customer.exchange.write(b"again")


async def test_the_time_he_takes_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    customer = Customer()
    await customer.exchange.start(200, [])
    assert customer.exchange.waited_s == 0.0
    customer.may_read.clear()
    asyncio.get_running_loop().call_later(0.05, customer.may_read.set)

    await customer.exchange.write(b"Hello")

    assert customer.text == "Hello"
    assert customer.exchange.waited_s > 0.03
