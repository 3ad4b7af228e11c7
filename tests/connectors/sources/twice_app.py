"""The fraud example's payments in two streams: produced to Kafka, and bridged from NATS."""

import headrace as hr
from headrace.declare.streams.external_source import ExternalSource


def payments(name: str, from_: ExternalSource | None = None) -> hr.Stream:
    return hr.Stream(
        name,
        schema="payment_id string, card string, merchant string, country string, amount double, at timestamp",
        id="payment_id",
        key="card",
        time="at",
        late=hr.Late("2m", then="side_output"),
        check="amount >= 0",
        from_=from_,
    )


def spend(stream: hr.Stream, name: str) -> hr.View:
    body = {
        "payments": hr.count(windows=["10m", "7d"]),
        "declined": hr.count(where="amount > 1000", windows="1h"),
        "spend": hr.sum("amount", windows=["10m", "7d"]),
        "mean": hr.mean("amount", windows="7d"),
        "largest": hr.max("amount", windows="7d"),
        "merchants": hr.distinct("merchant", windows="1h"),
        "country": hr.last("country", windows="7d"),
    }
    return hr.features(stream, by="card")(type(name, (), body))


straight = payments("straight")
bridged = payments("bridged", hr.Nats("env:NATS_URL", stream="PAYMENTS", subject="payments"))
Straight, Bridged = spend(straight, "Straight"), spend(bridged, "Bridged")
