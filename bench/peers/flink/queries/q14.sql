SELECT number, auction, bidder, price * 0.908E0 AS euros,
       CASE WHEN HOUR(happened) BETWEEN 8 AND 18 THEN 'day'
            WHEN HOUR(happened) <= 6 OR HOUR(happened) >= 20 THEN 'night'
            ELSE 'between' END AS part_of_day,
       happened, extra, CHAR_LENGTH(extra) - CHAR_LENGTH(REPLACE(extra, 'c', '')) AS letters_c
FROM bids
WHERE price * 0.908E0 > 1000000 AND price * 0.908E0 < 50000000
