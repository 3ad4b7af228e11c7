-- key: category
SELECT category, AVG(CAST(price AS DOUBLE)) AS mean
FROM (
  SELECT a.id, a.category, MAX(b.price) AS price
  FROM auctions a JOIN bids b ON b.auction = a.id AND b.happened BETWEEN a.happened AND a.expires
  GROUP BY a.id, a.category
)
GROUP BY category
