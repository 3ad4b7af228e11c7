"""A stream derived from a derived stream, and a view that counts it; a division by zero raises."""

from typing import Any

import headrace as hr

payments = hr.Stream(
    "payments",
    schema="id string, card string, country string, amount bigint, parts bigint, at timestamp",
    id="id",
    key="card",
    time="at",
    partitions=1,
)


@hr.derive(payments)
def abroad(payments: Any) -> Any:
    return payments.where("country <> 'FR'")


@hr.derive(abroad, schema="id string, card string, each bigint, at timestamp", id="id", key="card", time="at")
def instalments(abroad: Any) -> Any:
    return abroad.selectExpr("id", "card", "amount div parts as each", "at", "known_at")


@hr.features(instalments, by="card")
class Instalments:
    paid = hr.count(windows="1h")
    each = hr.sum("each", windows="1h")
