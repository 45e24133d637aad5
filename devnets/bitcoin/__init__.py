"""The Bitcoin-family devnet: `bitcoind` if it is on PATH, else Debian's `litecoind`, on a private regtest.

Both are real nodes with the real pool and the real consensus rules. What it does not imitate: peers (the pool
is never relayed, a reorg comes only from a lever); fee pressure and difficulty; the wallet (off); MWEB (never
active). Litecoin 0.21 has the policy of Bitcoin Core 0.21: 25 unconfirmed ancestors, no package relay,
replacement by BIP 125 signalling, and that only because the flag for it is set here. `devnets.faults` adds
lost answers, rate limits and replicas that are behind.
"""
