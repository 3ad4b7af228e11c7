"""A shop whose changes arrive through its outbox, and a view of its accounts."""

import headrace as hr
from tests.connectors.outbox.outbox_service import SCHEMA

changes = hr.Stream("shop.changes", schema=SCHEMA, id="id", key="account", time="at")
outbox = hr.Outbox("env:PG_URL", table="shop_outbox")


@hr.features(changes, by="account")
class Accounts:
    changes = hr.count(windows="1d")
    newest = hr.max("version", windows="1d")
