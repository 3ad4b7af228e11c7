-- key: bidder, ends
SELECT bidder, TO_TIMESTAMP_LTZ((happened_ms / 10000 + 1) * 10000, 3) AS ends, COUNT(*) AS bids
FROM bids
GROUP BY bidder, happened_ms / 10000
