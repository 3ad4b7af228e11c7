"""An app with every use of a captured table: a lookup, a view of its rows, and a stream of its changes."""

import headrace as hr

customers = hr.Changes(
    "customers",
    from_="env:SHOP_DB",
    table="public.customers",
    key="id",
    schema="id bigint, country string, credit double, since timestamp",
)
payments = hr.Stream(
    "payments",
    schema="payment_id string, customer bigint, amount double, at timestamp",
    id="payment_id",
    key="customer",
    time="at",
)


@hr.features(payments, by="customer")
class Customer:
    spent = hr.sum("amount", windows="1h")
    country = customers["country"].of("customer")
    credit = customers["credit"].of("customer")
    since = customers["since"].of("customer")


@hr.features(customers, by="country")
class Countries:
    customers = hr.count(windows="forever")
    credit = hr.sum("credit", windows="forever")
    least = hr.min("credit", windows="forever")
    most = hr.max("credit", windows="forever")
    rich = hr.count(where="credit > 50", windows="forever")


@hr.derive(customers)
def moves(customers):
    return customers.where("op <> 'r'")


@hr.features(moves, by="id")
class Moves:
    created = hr.count(where="op = 'c'", windows="forever")
    updated = hr.count(where="op = 'u'", windows="forever")
    deleted = hr.count(where="op = 'd'", windows="forever")
