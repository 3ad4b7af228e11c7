"""What Headrace keeps of the shop: its streams, and how the orders of each customer fared, for who scores the next."""

from messages import streams

import headrace as hr

commands, events = streams()


@hr.features(events, by="customer")
class CustomerOrders:
    placed = hr.count(where="kind = 'placed'", windows=["1d", "7d"])
    cancelled = hr.count(where="kind = 'cancelled'", windows=["1d", "7d"])
    spent = hr.sum("amount", where="kind = 'completed'", windows="7d")
