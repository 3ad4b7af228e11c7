SELECT b.number, b.auction, b.bidder, b.price, b.channel, b.url, b.happened, b.extra,
       a.item, a.description, a.initial_bid, a.reserve, a.happened AS opened, a.expires, a.seller, a.category
FROM bids b JOIN auctions a ON b.auction = a.id
WHERE a.category = 10
