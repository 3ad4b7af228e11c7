"""Every aggregate × window × late policy, as one app."""

import sys
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import headrace as hr
from tests.oracle.everything import every_aggregate, hostile_stream
from tests.oracle.several_streams import REFUND_SCHEMA, of_streams

EIGHT_DAYS = hr.Late("30s", then="update", until="8d")
correcting = hostile_stream("correcting", EIGHT_DAYS)
siding = hostile_stream("siding", hr.Late("5m", then="side_output"))
dropping = hostile_stream("dropping", hr.Late("5m", then="drop"))

refunds = hr.Stream(
    "refunds", schema=REFUND_SCHEMA, id="number", key="card", time="back_at", late=EIGHT_DAYS, partitions=1
)

CorrectingByCard = every_aggregate("CorrectingByCard", correcting, "card")
CorrectingByPair = every_aggregate("CorrectingByPair", correcting, ["card", "region"])
SidingByCard = replace(every_aggregate("SidingByCard", siding, "card"), salt=3)
DroppingByShop = every_aggregate("DroppingByShop", dropping, "shop")
SeveralByCard = replace(of_streams("SeveralByCard", [correcting, refunds], "card"), salt=4)
