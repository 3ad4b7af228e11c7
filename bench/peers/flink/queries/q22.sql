SELECT number, auction, bidder, price, channel,
       SPLIT_INDEX(url, '/', 3) AS `first`, SPLIT_INDEX(url, '/', 4) AS `second`, SPLIT_INDEX(url, '/', 5) AS third
FROM bids
