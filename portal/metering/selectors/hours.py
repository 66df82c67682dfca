"""The hourly sums: read by pages and exports, and compared with the records they came from."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta

from django.db import connection
from django.db.models import Max

from portal.metering.models import DroppedDay

_DIFFERING = """
    WITH facts AS (
        SELECT (usage.closed_at AT TIME ZONE 'UTC')::date AS day, count(*) AS attempts,
            sum(usage.charge_nano) AS charge, sum(usage.provider_nano) AS earned,
            sum(usage.prompt_tokens + usage.completion_tokens) AS tokens
        FROM metering_usagerecord usage
        WHERE usage.opened_on >= %(since)s AND NOT EXISTS (
            SELECT 1 FROM metering_usagequeue queue WHERE queue.reader = 'hours' AND queue.opened_on = usage.opened_on
                AND queue.request_id = usage.request_id AND queue.attempt = usage.attempt)
        GROUP BY 1
    ), sums AS (
        SELECT (hour AT TIME ZONE 'UTC')::date AS day, sum(attempts) AS attempts, sum(charge_nano) AS charge,
            sum(provider_nano) AS earned, sum(prompt_tokens + completion_tokens) AS tokens
        FROM metering_usagehour GROUP BY 1
    )
    SELECT day, concat_ws('/', facts.attempts, facts.tokens, facts.charge, facts.earned),
        concat_ws('/', sums.attempts, sums.tokens, sums.charge, sums.earned)
    FROM facts FULL JOIN sums USING (day)
    WHERE day > %(since)s AND (facts.attempts, facts.tokens, facts.charge, facts.earned)
        IS DISTINCT FROM (sums.attempts, sums.tokens, sums.charge, sums.earned)
    ORDER BY day
"""


_BY_MODEL = """
    SELECT model.public_id, sum(prompt_tokens), sum(cached_tokens), sum(completion_tokens), sum(charge_nano),
        sum(provider_nano)
    FROM metering_usagehour JOIN catalog_catalogmodel model ON model.id = model_id
    GROUP BY 1 ORDER BY 1
"""


@dataclass(frozen=True, slots=True)
class ModelSums:
    """What was ever served of one model; `prompt_tokens` include the cached ones."""

    model: str
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    charge_nano: int
    provider_nano: int


@dataclass(frozen=True, slots=True)
class DifferingDay:
    """A day whose hours are not what its records come to; both as attempts/tokens/charge/earned."""

    day: date
    recorded: str
    summed: str


def complete_since() -> date:
    """Return the day after which every record of an hour is still stored: a request may end a day after it began."""
    last = DroppedDay.objects.aggregate(last=Max("day"))["last"]
    return date.min if last is None else last + timedelta(days=1)


def differing_days(*, since: date = date.min) -> Iterator[DifferingDay]:
    """Yield the days after `since` whose hours differ from their records, those still queued left out."""
    with connection.cursor() as cursor:
        cursor.execute(_DIFFERING, {"since": since})
        for day, recorded, summed in cursor.fetchall():
            yield DifferingDay(day, recorded, summed)


def sums_by_model() -> list[ModelSums]:
    """Return the sums over all hours, which only grow."""
    with connection.cursor() as cursor:
        cursor.execute(_BY_MODEL)
        return [ModelSums(model, *(int(value) for value in values)) for model, *values in cursor.fetchall()]
