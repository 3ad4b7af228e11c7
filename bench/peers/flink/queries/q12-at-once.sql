-- key: bidder, ends
SELECT bidder, ends, COUNT(*) AS bids
FROM (SELECT bidder, TO_TIMESTAMP_LTZ((happened_ms / 10000 + 1) * 10000, 3) AS ends FROM bids)
GROUP BY bidder, ends
