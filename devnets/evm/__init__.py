"""The EVM devnet: anvil, a real node with one account set, one block maker and a pool of its own.

What it does not imitate: peers (a pool is never shared, a reorg comes only from a lever); geth's and reth's
refusal texts and codes; a minimum bump for replacements (+1 wei is enough here); a refusal swallowed and a
transaction lost afterwards; rate limits; a replica that is behind. `devnets.faults` adds what can be added.
Its pool is lost at a restart. States older than 128 blocks are gone, as on a node that is no archive. Its
`reorg` and `shorten` forget the removed transactions, where geth would put them back into the pool.
"""
