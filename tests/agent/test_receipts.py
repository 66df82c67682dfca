"""The agent keeps a claim of what it served, trades it for a receipt, and checks receipts and payouts offline."""

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from poolhouse_agent import cli
from poolhouse_agent.errors import ConfigError, PortalError
from poolhouse_agent.receipts import book as books
from poolhouse_agent.receipts import sender, signatures, verify
from poolhouse_agent.receipts.book import Book
from poolhouse_agent.runtime import Agent
from poolhouse_agent.state import State
from poolhouse_common.receipts import TunnelDigest, claim_message, countersign_message

from tests.contract.agent_protocol.goldens import golden
from tests.fakes.pool import CANCEL, Pool

SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"
PORTAL = Ed25519PrivateKey.from_private_bytes(b"a portal's key of these tests 32")
KEY = base64.b64encode(PORTAL.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)).decode()
ATTEMPT, NONCE = "01939d2e-0000-7000-8000-00000000000{}/1", "ab" * 16
SHORT = {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 3}
PRICE = {
    "id": 7, "version": 1, "prompt_nano_per_mtok": 200_000_000, "cached_nano_per_mtok": 50_000_000,
    "completion_nano_per_mtok": 800_000_000, "request_nano": 0,
}  # fmt: skip
BILL = {
    "provider": "prov_1", "node": "node_test", "model": "acme/demo", "outcome": "completed", "proof": "equal",
    "currency": "usd", "price": PRICE, "share_bps": 8000, "prompt_tokens": 1000, "cached_tokens": 0,
    "completion_tokens": 500, "token_source": "claim", "hold_nano": 10**9, "charge_nano": 600_000,
    "provider_nano": 480_000, "platform_nano": 120_000, "withheld": "",
    "opened_at": "2026-11-02T12:00:00.000000Z", "closed_at": "2026-11-02T12:00:02.000000Z",
}  # fmt: skip


def signed(claim: dict[str, Any], signature: str, node_key: str, **bill: Any) -> dict[str, Any]:
    receipt = {
        "version": 1, "claim": claim, "node_key": node_key, "node_signature": signature, "bill": BILL | bill,
        "sealed": "c2VhbGVk", "portal_key": KEY,
    }  # fmt: skip
    return receipt | {"portal_signature": base64.b64encode(PORTAL.sign(countersign_message(receipt))).decode()}


@pytest.fixture
def countersigning(pool: Pool) -> Callable[..., None]:
    """Let the pool answer claims: signed, but for attempts of which it is told a state."""

    def answer(states: dict[str, str] | None = None, key: str = KEY, **bill: Any) -> None:
        def each(one: Any) -> dict[str, Any]:
            attempt = one["claim"]["attempt"]
            state = (states or {}).get(attempt, "signed")
            told = {"attempt": attempt, "state": state, "code": "" if state == "signed" else "attempt_unknown"}
            if state != "signed":
                return told
            return told | {"receipt": signed(one["claim"], one["signature"], pool.public_key or "", **bill)}

        pool.countersign = lambda claims: {"signing_key": key, "results": [each(one) for one in claims]}

    return answer


async def serve(pool: Pool, number: int = 1, body: Any = SHORT) -> bytes:
    tunnel = await pool.tunnel()
    return (await tunnel.ask(body, attempt=ATTEMPT.format(number), nonce=NONCE)).body


def stored(state: State) -> list[Any]:
    return list(Book(state.receipts, most_bytes=1).stored())


async def test_a_claim_covers_the_exact_bytes_of_the_tunnel_and_no_text(
    pool: Pool, serving: Agent, countersigning, state, capsys
) -> None:
    countersigning()
    secret = "a-word-that-nobody-else-writes"
    body = {"messages": [{"role": "user", "content": secret}], "max_tokens": 30}
    answer = await serve(pool, body=body)

    assert await serving.receipts.exchange()

    told = pool.claims[0]["claim"]
    expected = TunnelDigest(NONCE, json.dumps(body).encode())
    expected.add(answer)
    assert (told["digest"], told["answer_bytes"], told["ending"]) == (expected.hex(), len(answer), "end")
    (receipt,) = stored(state)
    assert signatures.is_nodes(receipt)
    assert signatures.is_portals(receipt, portal_key=KEY)
    assert Book(state.receipts, most_bytes=1).portal_key() == KEY
    for file in state.receipts.iterdir():
        assert secret not in file.read_text()
        assert file.stat().st_mode & 0o077 == 0
    assert cli.main(["--state", str(state.folder), "receipts", "show", "--all", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == receipt
    jsonschema.validate(receipt, json.loads((SCHEMAS / "receipt.json").read_text(encoding="utf-8")))
    assert cli.main(["--state", str(state.folder), "receipts", "show"]) == 0
    assert "acme/demo" in capsys.readouterr().out


async def test_a_canceled_stream_is_claimed_as_far_as_it_went(pool: Pool, serving: Agent, countersigning) -> None:
    countersigning()
    tunnel = await pool.tunnel()
    long = {"messages": [{"role": "user", "content": "write 4000 words"}], "stream": True, "max_tokens": 3500}
    stream = await tunnel.begin(long, attempt=ATTEMPT.format(2), nonce=NONCE)
    await tunnel.until(lambda: len(tunnel.answers[stream].body) > 2000)
    await tunnel.send(CANCEL, stream)
    await tunnel.finish(stream)

    await serving.receipts.exchange()

    told = pool.claims[0]["claim"]
    assert told["ending"] == "canceled"
    assert told["answer_bytes"] == len(tunnel.answers[stream].body)


async def test_what_was_refused_before_it_began_has_no_claim(pool: Pool, serving: Agent, countersigning) -> None:
    countersigning()
    tunnel = await pool.tunnel()
    await tunnel.ask(SHORT, model="acme/other", attempt=ATTEMPT.format(3), nonce=NONCE)
    await tunnel.ask(SHORT, attempt="test/1", nonce=NONCE)

    assert serving.receipts.book.waiting == 0


async def test_claims_wait_for_their_attempt_survive_a_restart_and_end_when_refused(
    pool: Pool, serving: Agent, countersigning, state
) -> None:
    countersigning({ATTEMPT.format(1): "waiting"})
    await serve(pool)

    assert not await serving.receipts.exchange()

    again = Book(state.receipts, most_bytes=1)
    again.open()
    assert [claim["attempt"] for claim in again.oldest(limit=9)] == [ATTEMPT.format(1)]

    countersigning({ATTEMPT.format(1): "refused"})
    assert await serving.receipts.exchange()
    assert serving.receipts.book.waiting == 0
    assert stored(state) == []


async def test_a_pool_without_receipts_is_served_all_the_same(pool: Pool, serving: Agent, state, monkeypatch) -> None:
    await serve(pool)

    with pytest.raises(PortalError) as raised:
        await serving.receipts.exchange()

    assert raised.value.status == 404
    assert await serving.receipts.once(5.0) == 3600.0
    monkeypatch.setattr(sender, "KEEP_S", 0.01)
    await serve(pool, 2)
    await serving.receipts._rest(0.02)
    again = Book(state.receipts, most_bytes=1)
    again.open()
    assert [claim["attempt"] for claim in again.oldest(limit=9)] == [ATTEMPT.format(1), ATTEMPT.format(2)]


async def test_what_is_signed_by_another_key_or_is_not_for_the_claim_is_refused(
    pool: Pool, serving: Agent, countersigning, state
) -> None:
    countersigning()
    honest = pool.countersign

    def forged(claims: Any) -> dict[str, Any]:
        answer = honest(claims)
        answer["results"][0]["receipt"]["bill"]["provider_nano"] = 1
        return answer

    await serve(pool)
    pool.countersign = forged
    with pytest.raises(PortalError) as raised:
        await serving.receipts.exchange()
    assert raised.value.code == "receipt_unsound"

    pool.countersign = honest
    serving.receipts.book.pin(base64.b64encode(b"k" * 32).decode())
    with pytest.raises(PortalError) as raised:
        await serving.receipts.exchange()
    assert raised.value.code == "receipt_key_changed"
    assert stored(state) == []
    assert serving.receipts.book.waiting == 1


def test_a_receipt_has_the_golden_bytes() -> None:
    vector = golden("receipt_vector")
    receipt = vector["receipt"]
    taken = TunnelDigest(receipt["claim"]["nonce"], vector["body"].encode())
    for piece in vector["pieces"]:
        taken.add(piece.encode())

    assert taken.proof() == vector["proof"]
    assert verify.check([receipt], portal_key=receipt["portal_key"], prices=None).problems == []


def test_the_book_never_grows_beyond_its_bound(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(books, "SEGMENT_BYTES", 4_000)
    monkeypatch.setattr(books, "MAX_WAITING", 50)
    book = Book(tmp_path, most_bytes=12_000)
    book.open()

    for number in range(100):
        book.note({"attempt": f"a/{number}"})
        book.settle(receipts=[{"claim": {"attempt": f"b/{number}"}, "pad": "x" * 500}])

    assert sum(file.stat().st_size for file in tmp_path.glob("receipts-*")) <= 12_000 + 4_000
    assert list(book.stored())[-1]["claim"]["attempt"] == "b/99"
    assert (book.waiting, book.dropped) == (50, 50)
    assert book.oldest(limit=1)[0]["attempt"] == "a/50"


def receipts_file(tmp_path: Path, *, node: Ed25519PrivateKey | None = None, **bill: Any) -> Path:
    key = node or Ed25519PrivateKey.generate()
    public = base64.b64encode(key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)).decode()
    lines = []
    for number in (1, 2):
        claim = {
            "attempt": ATTEMPT.format(number), "nonce": NONCE, "answer_bytes": 9, "digest": "0" * 64, "ending": "end",
            "began_at": "2026-11-02T12:00:00.000Z", "ended_at": "2026-11-02T12:00:02.000Z",
        }  # fmt: skip
        signature = base64.b64encode(key.sign(claim_message(claim))).decode()
        lines.append(json.dumps(signed(claim, signature, public, **bill)))
    file = tmp_path / "receipts.jsonl"
    file.write_text("\n".join(lines) + "\n")
    return file


def payout_file(tmp_path: Path, **changes: Any) -> Path:
    said = {
        "document": "poolhouse-payout", "format": 1, "payout": "payout_1", "provider": "prov_1", "currency": "usd",
        "amount_minor": 1, "opening": "0.01",
        "earnings": [{"attempt": ATTEMPT.format(number), "earned": "0.00048"} for number in (1, 2)],
        "entries": [{"at": "2026-11-02", "kind": "payout_fee", "tx": "t", "amount": "-0.0001"}],
        "closing": "0.00086",
    } | changes  # fmt: skip
    file = tmp_path / "payout.json"
    file.write_text(json.dumps(said))
    return file


def prices_file(tmp_path: Path, **changes: Any) -> Path:
    row = {
        "price": 7, "model": "acme/demo", "prompt_per_mtok": "0.2", "cached_per_mtok": "0.05",
        "completion_per_mtok": "0.8", "per_request": "0",
    } | changes  # fmt: skip
    file = tmp_path / "prices.json"
    file.write_text(json.dumps({"document": "poolhouse-prices", "format": 1, "currency": "usd", "prices": [row]}))
    return file


def run(tmp_path: Path, capsys, *arguments: object) -> tuple[int, Any]:
    code = cli.main(
        ["--state", str(tmp_path), "receipts", "verify", *map(str, arguments), "--portal-key", KEY, "--json"]
    )
    said = json.loads(capsys.readouterr().out)
    jsonschema.validate(said, json.loads((SCHEMAS / "receipts-verify.json").read_text(encoding="utf-8")))
    return code, said


def test_a_payout_is_rebuilt_from_receipts_and_prices_to_the_nano(tmp_path: Path, capsys) -> None:
    code, said = run(
        tmp_path, capsys, receipts_file(tmp_path), "--prices", prices_file(tmp_path), "--payout", payout_file(tmp_path)
    )

    assert (code, said["is_right"], said["problems"]) == (0, True, [])
    assert (said["receipts"], said["earned"], said["proofs"]) == (2, "0.00096", {"equal": 2})
    assert said["payout"]["computed"] == {
        "earned": "0.00096",
        "entries": "-0.0001",
        "paid": "0.01",
        "closing": "0.00086",
    }


@pytest.mark.parametrize(
    ("bill", "problem"),
    [
        ({"charge_nano": 600_001, "platform_nano": 120_001}, "charged 600001 nano, comes to 600000"),
        ({"provider_nano": 480_001, "platform_nano": 119_999}, "earned 480001 nano, comes to 480000"),
        ({"platform_nano": 120_001}, "the parts do not add up to the charge"),
        ({"price": None}, "it is charged without a price"),
        ({"charge_nano": 0, "provider_nano": 0, "platform_nano": 0}, "charged 0 nano, comes to 600000"),
        ({"withheld": "related"}, "earned 480000 nano, comes to 0"),
    ],
)
def test_one_nano_too_much_or_too_little_is_told(tmp_path: Path, capsys, bill, problem) -> None:
    code, said = run(tmp_path, capsys, receipts_file(tmp_path, **bill))

    assert (code, said["is_right"]) == (1, False)
    assert said["problems"] == [f"{ATTEMPT.format(number)}: {problem}" for number in (1, 2)]


def test_changed_receipts_prices_and_payouts_are_told(tmp_path: Path, capsys) -> None:
    file = receipts_file(tmp_path)
    file.write_text(file.read_text().replace('"answer_bytes": 9', '"answer_bytes": 8', 1))
    assert run(tmp_path, capsys, file)[1]["problems"] == [f"{ATTEMPT.format(1)}: the node's signature does not fit"]

    file = receipts_file(tmp_path)
    other = prices_file(tmp_path, completion_per_mtok="0.9")
    assert "exported with other terms" in run(tmp_path, capsys, file, "--prices", other)[1]["problems"][0]

    short = payout_file(tmp_path, closing="0.00085")
    said = run(tmp_path, capsys, file, "--payout", short)[1]
    assert said["payout"]["problems"] == ["closing: 0.00085 told, comes to 0.00086"]


def test_an_earning_without_a_receipt_is_told(tmp_path: Path, capsys) -> None:
    earnings = [{"attempt": ATTEMPT.format(9), "earned": "0.00048"}]
    code, said = run(
        tmp_path,
        capsys,
        receipts_file(tmp_path),
        "--payout",
        payout_file(tmp_path, earnings=earnings, closing="0.00038"),
    )

    assert code == 1
    assert said["payout"]["problems"] == [f"{ATTEMPT.format(9)}: 0.00048 without a receipt or usage row"]


def test_without_a_key_nothing_can_be_verified(tmp_path: Path, capsys) -> None:
    code = cli.main(["--state", str(tmp_path), "receipts", "verify", str(receipts_file(tmp_path))])

    assert code == 2
    assert "receipts_key_unknown" in capsys.readouterr().err


def test_a_file_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("no json\n")

    with pytest.raises(ConfigError, match="line 1 is not JSON"):
        list(verify.read([tmp_path / "x"]))
