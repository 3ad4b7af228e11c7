WITH newcomers AS (
  SELECT window_start, window_end, id, name
  FROM TABLE(TUMBLE(TABLE persons, DESCRIPTOR(happened), INTERVAL '10' SECOND))
  GROUP BY window_start, window_end, id, name
), sellers AS (
  SELECT window_start, window_end, seller
  FROM TABLE(TUMBLE(TABLE auctions, DESCRIPTOR(happened), INTERVAL '10' SECOND))
  GROUP BY window_start, window_end, seller
)
SELECT CAST(n.window_end AS TIMESTAMP_LTZ(3)) AS ends, n.id, n.name
FROM newcomers n JOIN sellers s ON n.window_start = s.window_start AND n.window_end = s.window_end AND n.id = s.seller
