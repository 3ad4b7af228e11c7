SELECT number, auction, bidder, price, happened, extra FROM bids
