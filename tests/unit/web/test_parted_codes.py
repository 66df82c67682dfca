"""Where a line may break in an account's code."""

import pytest

from portal.web.templatetags.pool import parted


@pytest.mark.parametrize(
    ("code", "shown"),
    [
        ("stripe_balance", "stripe_balance"),
        ("customer_credit:org_1:usd", "customer_credit:<wbr>org_1:<wbr>usd"),
        ("<b>:&", "&lt;b&gt;:<wbr>&amp;"),
    ],
)
def test_a_line_breaks_after_a_colon_and_all_else_is_escaped(code: str, shown: str) -> None:
    assert parted(code) == shown
