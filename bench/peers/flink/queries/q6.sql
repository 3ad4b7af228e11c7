-- key: seller
WITH winning AS (
  SELECT id, seller, expires, price
  FROM (
    SELECT a.id, a.seller, a.expires, b.price,
           ROW_NUMBER() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.happened, b.number) AS place
    FROM auctions a JOIN bids b ON b.auction = a.id AND b.happened BETWEEN a.happened AND a.expires
  )
  WHERE place = 1
)
SELECT seller, AVG(CAST(price AS DOUBLE)) AS mean
FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY seller ORDER BY expires DESC, id DESC) AS place FROM winning)
WHERE place <= 10
GROUP BY seller
