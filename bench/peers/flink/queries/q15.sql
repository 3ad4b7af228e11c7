-- key: day
SELECT DATE_FORMAT(happened, 'yyyy-MM-dd') AS `day`,
       COUNT(*) AS bids,
       COUNT(*) FILTER (WHERE price < 10000) AS cheap_bids,
       COUNT(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS middling_bids,
       COUNT(*) FILTER (WHERE price >= 1000000) AS dear_bids,
       COUNT(DISTINCT bidder) AS bidders,
       COUNT(DISTINCT bidder) FILTER (WHERE price < 10000) AS cheap_bidders,
       COUNT(DISTINCT bidder) FILTER (WHERE price >= 10000 AND price < 1000000) AS middling_bidders,
       COUNT(DISTINCT bidder) FILTER (WHERE price >= 1000000) AS dear_bidders,
       COUNT(DISTINCT auction) AS auctions,
       COUNT(DISTINCT auction) FILTER (WHERE price < 10000) AS cheap_auctions,
       COUNT(DISTINCT auction) FILTER (WHERE price >= 10000 AND price < 1000000) AS middling_auctions,
       COUNT(DISTINCT auction) FILTER (WHERE price >= 1000000) AS dear_auctions
FROM bids
GROUP BY DATE_FORMAT(happened, 'yyyy-MM-dd')
