-- key: auction, day
SELECT auction, DATE_FORMAT(happened, 'yyyy-MM-dd') AS `day`,
       COUNT(*) AS bids,
       COUNT(*) FILTER (WHERE price < 10000) AS cheap_bids,
       COUNT(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS middling_bids,
       COUNT(*) FILTER (WHERE price >= 1000000) AS dear_bids,
       MIN(price) AS least, MAX(price) AS most, AVG(CAST(price AS DOUBLE)) AS mean, SUM(price) AS total
FROM bids
GROUP BY auction, DATE_FORMAT(happened, 'yyyy-MM-dd')
