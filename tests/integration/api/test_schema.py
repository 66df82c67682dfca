"""The schema and its page."""

import re

from django.test import Client


def test_the_schema_names_every_route_of_the_agent_protocol(db):
    schema = Client().get("/api/schema/", headers={"accept": "application/json"}).json()

    assert set(schema["paths"]) >= {
        "/agent/v1/enrol",
        "/agent/v1/session/challenge",
        "/agent/v1/session",
        "/agent/v1/heartbeat",
    }
    heartbeat = schema["paths"]["/agent/v1/heartbeat"]["post"]
    assert heartbeat["security"] == [{"sessionToken": []}]
    assert set(heartbeat["responses"]) >= {"200", "400", "401", "409"}
    assert schema["components"]["securitySchemes"]["enrolmentToken"]["scheme"] == "bearer"


def test_the_page_keeps_to_the_content_security_policy(db):
    page = Client().get("/api/docs/")

    assert page.status_code == 200
    assert "script-src 'self'" in page["content-security-policy"]
    assert not re.search(r"<style|<script(?![^>]*src=)|style=|\son\w+=", page.text)
    script = re.search(r'<script src="(/api/docs/[^"]+)"', page.text).group(1)
    loaded = Client().get(script.replace("&amp;", "&"))
    assert (loaded.status_code, loaded["content-type"]) == (200, "application/javascript")
    assert "/api/schema/" in loaded.text or "../schema/" in loaded.text
