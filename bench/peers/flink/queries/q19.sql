-- key: auction, place
SELECT auction, place, number, bidder, price, channel, url, happened, extra
FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC, number) AS place FROM bids)
WHERE place <= 10
