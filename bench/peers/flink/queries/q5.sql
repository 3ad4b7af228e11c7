WITH counts AS (
  SELECT window_start, window_end, auction, COUNT(*) AS bids
  FROM TABLE(HOP(TABLE bids, DESCRIPTOR(happened), INTERVAL '2' SECOND, INTERVAL '10' SECOND))
  GROUP BY window_start, window_end, auction
), most AS (
  SELECT window_start, window_end, MAX(bids) AS bids FROM counts GROUP BY window_start, window_end
)
SELECT CAST(c.window_end AS TIMESTAMP_LTZ(3)) AS ends, c.auction, c.bids
FROM counts c JOIN most m ON c.window_start = m.window_start AND c.window_end = m.window_end AND c.bids = m.bids
