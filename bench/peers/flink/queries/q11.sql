SELECT bidder, CAST(window_start AS TIMESTAMP_LTZ(3)) AS starts, CAST(window_end AS TIMESTAMP_LTZ(3)) AS ends,
       COUNT(*) AS bids
FROM TABLE(SESSION(TABLE bids PARTITION BY bidder, DESCRIPTOR(happened), INTERVAL '10' SECOND))
GROUP BY window_start, window_end, bidder
