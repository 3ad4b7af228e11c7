SELECT bidder, CAST(window_end AS TIMESTAMP_LTZ(3)) AS ends, COUNT(*) AS bids
FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(happened), INTERVAL '10' SECOND))
GROUP BY window_start, window_end, bidder
