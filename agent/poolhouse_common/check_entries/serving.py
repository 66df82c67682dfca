"""What customers feel of a model on a node. The targets are of one unloaded request or, for concurrency, of many."""

from typing import Final

from poolhouse_common.check import Check, Subject

TTFT_TARGET_MS: Final = 2_000
ITL_TARGET_MS: Final = 100

ENTRIES = (
    Check(
        "engine.smoke",
        1,
        "The engine answers",
        "A chat that streams and one that does not, each with the tokens that were asked for.",
        "probe_failed",
        subject=Subject.MODEL,
    ),
    Check(
        "engine.first_token",
        1,
        "Time to the first token",
        "Alone on the engine, prompts of middle length; of twenty requests one may take longer.",
        "first_token_late",
        subject=Subject.MODEL,
        unit="ms",
        is_higher_better=False,
        fail_limit_milli=10_000_000,
        warn_limit_milli=TTFT_TARGET_MS * 1000,
    ),
    Check(
        "engine.inter_token",
        1,
        "Time between tokens",
        "Alone on the engine; of twenty gaps one may be longer.",
        "tokens_slow",
        subject=Subject.MODEL,
        unit="ms",
        is_higher_better=False,
        fail_limit_milli=500_000,
        warn_limit_milli=ITL_TARGET_MS * 1000,
    ),
    Check(
        "engine.prefill",
        1,
        "Prefill",
        "Tokens of prompts that are read in a second: new prompts, one token of answer each.",
        "prefill_slow",
        subject=Subject.MODEL,
        unit="tokens/s",
        fail_limit_milli=50_000,
        warn_limit_milli=500_000,
    ),
    Check(
        "engine.decode",
        1,
        "Decode",
        "Tokens that are written in a second once the first one is there, all streams together.",
        "tokens_slow",
        subject=Subject.MODEL,
        unit="tokens/s",
        fail_limit_milli=5_000,
        warn_limit_milli=20_000,
    ),
    Check(
        "engine.concurrency",
        1,
        "Requests at once within the targets",
        f"The most requests at once with the first token within {TTFT_TARGET_MS} ms and {ITL_TARGET_MS} ms between "
        "tokens.",
        "targets_missed",
        subject=Subject.MODEL,
        unit="requests",
        warn_limit_milli=1_000,
    ),
)
