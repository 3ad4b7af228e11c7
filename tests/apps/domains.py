"""The vocabulary of each domain: the names of streams and columns in its apps."""

from typing import NamedTuple


class Words(NamedTuple):
    """An event and another one of the same things, the thing itself, what is measured of it, and its sort."""

    event: str
    other: str
    thing: str
    amount: str
    sort: str


DOMAINS: dict[str, Words] = {
    "smart meters": Words("reading", "outage", "meter", "kwh", "tariff"),
    "parcel tracking": Words("scan", "complaint", "parcel", "weight", "depot"),
    "elevators": Words("ride", "fault", "lift", "load", "building"),
    "game matches": Words("match", "ban", "player", "score", "arena"),
    "clinics": Words("visit", "recall", "patient", "cost", "ward"),
    "ride hailing": Words("trip", "rating", "driver", "fare", "city"),
    "ad clicks": Words("click", "conversion", "campaign", "bid", "site"),
    "hotel bookings": Words("booking", "cancellation", "hotel", "price", "room_type"),
    "greenhouses": Words("sample", "watering", "bed", "humidity", "crop"),
    "telecom cells": Words("call", "dropout", "cell", "seconds", "band"),
    "support tickets": Words("ticket", "reply", "customer", "effort", "queue"),
    "ev charging": Words("charge", "price_change", "charger", "energy", "plug"),
    "libraries": Words("loan", "reservation", "book", "fee", "branch"),
    "shipping containers": Words("move", "inspection", "container", "tons", "port"),
    "auctions": Words("offer", "withdrawal", "lot", "bid_amount", "category"),
    "bike sharing": Words("rental", "repair", "bike", "distance", "station"),
    "weather stations": Words("measure", "calibration", "sensor", "rainfall", "region"),
    "vending machines": Words("sale", "refill", "machine", "coins", "drink"),
    "video streaming": Words("play", "stall", "viewer", "bitrate", "device"),
    "warehouses": Words("pick", "stocktake", "shelf", "units", "aisle"),
    "wind farms": Words("output", "curtailment", "turbine", "power", "park"),
    "dairy farms": Words("milking", "checkup", "cow", "litres", "barn"),
    "parking": Words("stay", "fine", "bay", "charge_paid", "garage"),
    "ski lifts": Words("pass_scan", "rescue", "skier", "height", "slope"),
    "water works": Words("flow", "leak", "pipe", "volume", "district"),
    "print shops": Words("job", "jam", "printer", "pages", "paper"),
    "toll roads": Words("passage", "dispute", "plate", "toll", "gantry"),
    "laboratories": Words("test", "retest", "probe", "value", "assay"),
    "bakeries": Words("batch", "waste", "oven", "loaves", "dough"),
    "data centres": Words("probe_result", "incident", "host", "latency", "rack"),
    "newsletters": Words("opening", "unsubscription", "reader", "dwell", "topic"),
    "fish farms": Words("feeding", "netting", "pond", "feed", "species"),
    "theatres": Words("seat_sale", "refund", "seat", "ticket_price", "play_title"),
    "recycling": Words("drop_off", "sorting", "bin", "mass", "material"),
    "fitness": Words("workout", "injury", "member", "calories", "sport"),
    "car workshops": Words("service", "warranty", "car", "hours", "brand"),
    "tram lines": Words("departure", "delay", "tram", "passengers", "line"),
    "mining trucks": Words("haul", "refuel", "truck", "ore", "pit"),
    "online courses": Words("lesson", "exam", "student", "points", "course"),
    "blood banks": Words("donation", "deferral", "donor", "millilitres", "blood_type"),
    "vineyards": Words("harvest", "spraying", "row", "sugar", "grape"),
    "airports": Words("screening", "alarm", "lane", "bags", "terminal"),
    "cinemas": Words("screening_sale", "complaint_note", "hall", "revenue", "film"),
    "pharmacies": Words("dispense", "return_note", "drug", "dose", "store_name"),
    "beehives": Words("weighing", "swarm", "hive", "honey", "meadow"),
    "call centres": Words("answer", "escalation", "agent", "talk_time", "language"),
    "snow ploughs": Words("run", "breakdown", "plough", "salt_used", "route"),
    "laundries": Words("wash", "damage", "drum", "kilos", "programme"),
    "museums": Words("entry", "guided_tour", "gate_no", "fee_paid", "exhibition"),
    "ferries": Words("crossing", "cancel_note", "ferry", "vehicles", "harbour"),
}
