SELECT number, auction, bidder, price * 0.908E0 AS euros, happened, extra FROM bids
