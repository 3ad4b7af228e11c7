"""The expected results: every query in SQL over all events at once, by DuckDB, which has no notion of streams."""

from typing import Any

import duckdb

from bench.nexmark.columns import Events

Row = tuple[Any, ...]

# `ends` is the end of a window or an auction; no engine has to emit rows that end after the last real event.
_WINNING = """
    SELECT a.id, a.item, a.category, a.seller, a.happened AS opened, a.expires AS ends,
           b.number, b.bidder, b.price, b.happened
    FROM auctions a JOIN bids b ON b.auction = a.id AND b.happened BETWEEN a.happened AND a.expires
    QUALIFY row_number() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.happened, b.number) = 1
"""
_RANKS = """
    count(*) AS bids,
    count(*) FILTER (price < 10000) AS cheap_bids,
    count(*) FILTER (price >= 10000 AND price < 1000000) AS middling_bids,
    count(*) FILTER (price >= 1000000) AS dear_bids
"""
_DISTINCT = ",".join(
    f"""
    count(DISTINCT {what}) AS {what}s,
    count(DISTINCT {what}) FILTER (price < 10000) AS cheap_{what}s,
    count(DISTINCT {what}) FILTER (price >= 10000 AND price < 1000000) AS middling_{what}s,
    count(DISTINCT {what}) FILTER (price >= 1000000) AS dear_{what}s
"""
    for what in ("bidder", "auction")
)
_TUMBLED = "to_timestamp(epoch_ms(happened) // 10000 * 10 + 10)::TIMESTAMP"

SQL = {
    "q0": "SELECT number, auction, bidder, price, happened, extra FROM bids",
    "q1": "SELECT number, auction, bidder, price * 0.908::DOUBLE AS euros, happened, extra FROM bids",
    "q2": "SELECT number, auction, price FROM bids WHERE auction % 123 = 0",
    "q3": """
        SELECT a.id, p.name, p.city, p.state FROM auctions a JOIN persons p ON a.seller = p.id
        WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA')
    """,
    "q4": f"SELECT category, avg(price) AS mean FROM ({_WINNING}) GROUP BY category",
    "q5": """
        WITH hops AS (
            SELECT auction, epoch_ms(happened) // 2000 * 2 + unnest([2, 4, 6, 8, 10]) AS s FROM bids
        ), counts AS (SELECT auction, s, count(*) AS bids FROM hops GROUP BY auction, s)
        SELECT to_timestamp(s)::TIMESTAMP AS ends, auction, bids FROM counts
        QUALIFY bids = max(bids) OVER (PARTITION BY s)
    """,
    "q6": f"""
        SELECT seller, avg(price) AS mean FROM (
            SELECT * FROM ({_WINNING})
            QUALIFY row_number() OVER (PARTITION BY seller ORDER BY ends DESC, id DESC) <= 10
        ) GROUP BY seller
    """,
    "q7": f"""
        SELECT {_TUMBLED} AS ends, number, auction, bidder, price, happened FROM bids
        QUALIFY price = max(price) OVER (PARTITION BY ends)
    """,
    "q8": f"""
        SELECT DISTINCT p.ends, p.id, p.name FROM (SELECT *, {_TUMBLED} AS ends FROM persons) p
        JOIN (SELECT *, {_TUMBLED} AS ends FROM auctions) a ON a.seller = p.id AND a.ends = p.ends
    """,
    "q9": f"SELECT id, item, category, seller, opened, ends, number, bidder, price, happened FROM ({_WINNING})",
    "q11": """
        WITH gaps AS (
            SELECT bidder, happened, happened > lag(happened) OVER one + INTERVAL 10 SECOND IS NOT FALSE AS is_first
            FROM bids WINDOW one AS (PARTITION BY bidder ORDER BY happened, number)
        ), numbered AS (
            SELECT *, count(*) FILTER (is_first) OVER (PARTITION BY bidder ORDER BY happened) AS session FROM gaps
        )
        SELECT bidder, min(happened) AS starts, max(happened) + INTERVAL 10 SECOND AS ends, count(*) AS bids
        FROM numbered GROUP BY bidder, session
    """,
    "q12": f"SELECT bidder, {_TUMBLED} AS ends, count(*) AS bids FROM bids GROUP BY ALL",
    "q14": """
        SELECT number, auction, bidder, price * 0.908::DOUBLE AS euros,
               CASE WHEN hour(happened) BETWEEN 8 AND 18 THEN 'day'
                    WHEN hour(happened) <= 6 OR hour(happened) >= 20 THEN 'night' ELSE 'between' END AS part_of_day,
               happened, extra, length(extra) - length(replace(extra, 'c', '')) AS letters_c
        FROM bids WHERE price * 0.908::DOUBLE > 1000000 AND price * 0.908::DOUBLE < 50000000
    """,
    "q15": f"SELECT strftime(happened, '%Y-%m-%d') AS day, {_RANKS}, {_DISTINCT} FROM bids GROUP BY day",
    "q16": f"""
        SELECT channel, strftime(happened, '%Y-%m-%d') AS day, max(strftime(happened, '%H:%M')) AS minute,
               {_RANKS}, {_DISTINCT}
        FROM bids GROUP BY channel, day
    """,
    "q17": f"""
        SELECT auction, strftime(happened, '%Y-%m-%d') AS day, {_RANKS},
               min(price) AS least, max(price) AS most, avg(price) AS mean, sum(price)::BIGINT AS total
        FROM bids GROUP BY auction, day
    """,
    "q18": """
        SELECT bidder, auction, number, price, channel, url, happened, extra FROM bids
        QUALIFY row_number() OVER (PARTITION BY bidder, auction ORDER BY happened DESC, number DESC) = 1
    """,
    "q19": """
        SELECT auction, row_number() OVER (PARTITION BY auction ORDER BY price DESC, number) AS place,
               number, bidder, price, channel, url, happened, extra
        FROM bids QUALIFY place <= 10
    """,
    "q20": """
        SELECT b.number, b.auction, b.bidder, b.price, b.channel, b.url, b.happened, b.extra,
               a.item, a.description, a.initial_bid, a.reserve, a.happened AS opened, a.expires, a.seller, a.category
        FROM bids b JOIN auctions a ON b.auction = a.id WHERE a.category = 10
    """,
    "q21": r"""
        SELECT number, auction, bidder, price, channel,
               CASE lower(channel) WHEN 'apple' THEN '0' WHEN 'google' THEN '1' WHEN 'facebook' THEN '2'
                    WHEN 'baidu' THEN '3' ELSE nullif(regexp_extract(url, '[&?]channel_id=([^&]*)', 1), '') END
               AS channel_id
        FROM bids WHERE channel_id IS NOT NULL
    """,
    "q22": """
        SELECT number, auction, bidder, price, channel,
               split_part(url, '/', 4) AS first, split_part(url, '/', 5) AS second, split_part(url, '/', 6) AS third
        FROM bids
    """,
}


def answers(events: Events, query: str) -> tuple[list[str], list[Row]]:
    """The columns and the rows of a query's answer; times are in milliseconds."""
    with duckdb.connect() as database:
        database.execute("SET TimeZone = 'UTC'")
        for name, table in events:
            database.register(f"{name}_ms", table)
            database.execute(f"CREATE VIEW {name} AS SELECT *, {_times(table.column_names)} FROM {name}_ms")
        found = database.sql(SQL[query])
        columns = [
            f"epoch_ms({name})" if str(kind) == "TIMESTAMP" else name
            for name, kind in zip(found.columns, found.types, strict=True)
        ]
        return found.columns, found.project(", ".join(columns)).fetchall()


def _times(columns: list[str]) -> str:
    return ", ".join(f"make_timestamp({name} * 1000) AS {name[:-3]}" for name in columns if name.endswith("_ms"))
