"""The shop's streams, and features of each customer's orders for a model that scores the next one."""

from messages import streams

import headrace as hr

commands, events = streams()


@hr.features(events, by="customer")
class CustomerOrders:
    placed = hr.count(where="kind = 'placed'", windows=["1d", "7d"])
    cancelled = hr.count(where="kind = 'cancelled'", windows=["1d", "7d"])
    spent = hr.sum("amount", where="kind = 'completed'", windows="7d")
