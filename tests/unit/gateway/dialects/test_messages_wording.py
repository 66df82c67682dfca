"""Every error of the table in Anthropic's types and statuses."""

import pytest

from portal.gateway import errors
from portal.gateway.dialects.messages.wording import MessagesWording
from portal.gateway.errors import ApiError
from tests.unit.gateway.dialects.answers import REQUEST_ID, events

WORDING = MessagesWording(REQUEST_ID)


@pytest.mark.parametrize(
    ("status", "code", "expected"),
    [
        (400, "invalid_json", (400, "invalid_request_error")),
        (400, "context_length_exceeded", (400, "invalid_request_error")),
        (401, "invalid_api_key", (401, "authentication_error")),
        (402, "credit_balance_exhausted", (402, "billing_error")),
        (402, "credit_held", (402, "billing_error")),
        (402, "key_budget_exhausted", (402, "billing_error")),
        (403, "model_not_allowed", (403, "permission_error")),
        (404, "model_not_found", (404, "not_found_error")),
        (405, "method_not_allowed", (405, "invalid_request_error")),
        (408, "invalid_value", (408, "invalid_request_error")),
        (413, "request_too_large", (413, "request_too_large")),
        (431, "request_too_large", (431, "request_too_large")),
        (429, "rate_limit_exceeded", (429, "rate_limit_error")),
        (429, "too_many_parallel_requests", (429, "rate_limit_error")),
        (500, "internal_error", (500, "api_error")),
        (502, "node_error", (502, "api_error")),
        (503, "billing_unavailable", (503, "api_error")),
        (503, "draining", (503, "api_error")),
        (503, "no_capacity", (529, "overloaded_error")),
        (504, "node_timeout", (504, "timeout_error")),
    ],
)
def test_the_table(status, code, expected):
    answered, body = WORDING.refusal(ApiError(status, "ours", code, "Why and what to do."))

    assert (answered, body["error"]["type"]) == expected
    assert body == {
        "type": "error",
        "error": {"type": expected[1], "message": "Why and what to do.", "code": code},
        "request_id": str(REQUEST_ID),
    }


def test_in_the_band_it_is_an_event_named_error():
    name, value = events(WORDING.error(errors.node_failed(is_timeout=False, message="The node failed.")))[0]

    assert (name, value["error"]["type"]) == ("error", "api_error")


def test_fields_have_this_endpoints_names():
    error = errors.invalid("tools[0].function.parameters must be an object.", param="tools[0].function.parameters")

    fields = WORDING.refusal(error)[1]["error"]

    assert fields["message"] == "tools[0].input_schema must be an object."
    assert fields["param"] == "tools[0].input_schema"
