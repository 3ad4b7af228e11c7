WITH highest AS (
  SELECT window_start, window_end, MAX(price) AS price
  FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(happened), INTERVAL '10' SECOND))
  GROUP BY window_start, window_end
), tumbled AS (
  SELECT * FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(happened), INTERVAL '10' SECOND))
)
SELECT CAST(t.window_end AS TIMESTAMP_LTZ(3)) AS ends, t.number, t.auction, t.bidder, t.price, t.happened
FROM tumbled t JOIN highest h ON t.window_start = h.window_start AND t.window_end = h.window_end AND t.price = h.price
