-- key: id
SELECT id, item, category, seller, opened, ends, number, bidder, price, happened
FROM (
  SELECT a.id, a.item, a.category, a.seller, a.happened AS opened, a.expires AS ends,
         b.number, b.bidder, b.price, b.happened,
         ROW_NUMBER() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.happened, b.number) AS place
  FROM auctions a JOIN bids b ON b.auction = a.id AND b.happened BETWEEN a.happened AND a.expires
)
WHERE place = 1
