"""Readable answers without a model: deterministic, about what was asked, as long as wanted."""

import itertools
import operator
import random
import re
from collections.abc import Callable, Iterator, Mapping

_GREETING = re.compile(r"^\W*(hello|hi|hey|good (morning|evening|afternoon))\b", re.IGNORECASE)
_SUM = re.compile(r"(-?\d{1,9})\s*([-+*x])\s*(-?\d{1,9})")
_COUNT = re.compile(r"\bcount\b.*?\bto (\d{1,4})\b", re.IGNORECASE)
_LENGTH = re.compile(r"\b(\d{1,5}) words\b", re.IGNORECASE)
_WORD = re.compile(r"[A-Za-z][A-Za-z'-]{2,}")
_OPERATIONS: Mapping[str, Callable[[int, int], int]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "x": operator.mul,
}  # fmt: skip
_COMMON = frozenset(
    [
        "about",
        "and",
        "are",
        "can",
        "could",
        "did",
        "does",
        "explain",
        "for",
        "from",
        "give",
        "has",
        "have",
        "hello",
        "how",
        "into",
        "its",
        "list",
        "me",
        "please",
        "say",
        "short",
        "should",
        "some",
        "tell",
        "that",
        "the",
        "their",
        "them",
        "then",
        "there",
        "these",
        "they",
        "this",
        "was",
        "were",
        "what",
        "when",
        "where",
        "which",
        "who",
        "why",
        "will",
        "with",
        "words",
        "would",
        "write",
        "you",
        "your",
    ]
)
_OPENINGS = (
    "Here is a short answer about {topic}.",
    "Let me say a few words about {topic}.",
    "There is more to {topic} than it seems at first.",
    "A good way to think about {topic} is to begin with what it is for.",
)
_BODY = (
    "The first thing to look at is what {topic} costs and who pays for it.",
    "Most people who work with {topic} keep it simple and measure before they change anything.",
    "In practice {topic} works best when every step can be checked by someone else.",
    "It helps to write down what you expect of {topic}, and to compare it with what you see.",
    "When {topic} goes wrong, the cause is usually small and close to where it was noticed.",
    "A careful plan for {topic} leaves room for the part that nobody thought of.",
    "Two people may see {topic} in different ways and both be right.",
    "Over time {topic} changes, so it is worth to look again after a while.",
    "If you are new to {topic}, start with one example and follow it to the end.",
    "The tools for {topic} have become better, but they still need a patient hand.",
)
_CLOSINGS = (
    "That is the short version; ask me for more whenever you like.",
    "I hope this helps with your question about {topic}.",
    "In short: begin small, measure, and then decide.",
)


def answer(question: str, *, seed: int) -> Iterator[str]:
    """Yield the answer's sentences, each with its leading space; ends by itself."""
    dice = random.Random(f"{seed}:{question}")  # noqa: S311  text, not secrets
    for number, sentence in enumerate(_sentences(question, dice)):
        yield sentence if number == 0 else " " + sentence


def _sentences(question: str, dice: random.Random) -> Iterator[str]:
    if count := _COUNT.search(question):
        yield ", ".join(str(number) for number in range(1, int(count[1]) + 1)) + "."
        return
    if found := _SUM.search(question):
        left, sign, right = found.groups()
        yield f"{left} {sign} {right} is {_OPERATIONS[sign](int(left), int(right))}."
        return
    if _GREETING.match(question):
        yield dice.choice(
            ("Hello! It is good to hear from you.", "Hi there, and welcome.", "Hello, and thank you for asking.")
        )
    topic = _topic(question)
    yield dice.choice(_OPENINGS).format(topic=topic)
    for sentence in itertools.islice(_endless(dice), _body_length(question, dice)):
        yield sentence.format(topic=topic)
    yield dice.choice(_CLOSINGS).format(topic=topic)


def _endless(dice: random.Random) -> Iterator[str]:
    while True:
        yield from dice.sample(_BODY, len(_BODY))


def _body_length(question: str, dice: random.Random) -> int:
    if wanted := _LENGTH.search(question):
        return max(1, int(wanted[1]) // 15)
    return dice.randint(2, 5)


def _topic(question: str) -> str:
    words = [word if word.isupper() else word.lower() for word in _WORD.findall(question[-2000:])]
    telling = [word for word in dict.fromkeys(words) if word.lower() not in _COMMON]
    return " and ".join(telling[:2]) or "your question"
