-- key: bidder, auction
SELECT bidder, auction, number, price, channel, url, happened, extra
FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY bidder, auction ORDER BY happened DESC, number DESC) AS place FROM bids
)
WHERE place = 1
