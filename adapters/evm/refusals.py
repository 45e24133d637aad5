"""What the nodes' refusals mean: one table from their texts to the closed set of outcomes.

The text decides and the code hardly ever: geth gives -32000 for everything, the others mix. None of this proves
that bytes cannot land: pools, caps and checks differ per node and moment.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from gateway.core.errors import Outcome


@dataclass(frozen=True, slots=True)
class Said:
    """One text of one client. `observed`: a node really said it to this adapter in a test here."""

    client: str
    code: int
    text: str
    observed: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """Texts that mean the same. `pattern` is searched in the message, without regard to case."""

    outcome: Outcome
    pattern: re.Pattern[str]
    why: str
    said: tuple[Said, ...]


def _row(outcome: Outcome, pattern: str, why: str, *said: Said) -> Row:
    return Row(outcome, re.compile(pattern, re.IGNORECASE), why, said)


REFUSALS: Final[tuple[Row, ...]] = (
    _row(
        Outcome.ALREADY_KNOWN,
        r"already known|known transaction|already imported|alreadyknown",
        "the node has these bytes: that is success",
        Said("geth, reth, nitro", -32000, "already known"),
        Said("Besu", -32000, "Known transaction"),
        Said("anvil", -32003, "transaction already imported", observed=True),
        Said("Nethermind", -32010, "AlreadyKnown"),
    ),
    _row(
        Outcome.LOOKUP,
        r"nonce too low|oldnonce",
        "the nonce is used: also the answer to our own bytes once they are in a block",
        Said("geth, reth", -32000, "nonce too low: next nonce 5, tx nonce 4"),
        Said("nitro", -32000, "nonce too low: address 0x00, tx: 4 state: 5"),
        Said("Besu", -32001, "Nonce too low"),
        Said("anvil", -32003, "nonce too low", observed=True),
        Said("Nethermind", -32010, "OldNonce, Current nonce: 5, nonce of rejected tx: 4"),
    ),
    _row(
        Outcome.RETRY,
        r"delegated accounts?\b|authority already reserved|address already reserved",
        "a rule about delegated accounts or mixed transaction types; it passes when the others are in blocks",
        Said("geth", -32000, "in-flight transaction limit reached for delegated accounts"),
        Said("geth", -32000, "gapped-nonce tx from delegated accounts"),
        Said("geth", -32000, "authority already reserved"),
        Said("geth, reth", -32000, "address already reserved"),
    ),
    _row(
        Outcome.RETRY,
        r"(tx|transaction)? ?pool is full|account limit exceeded",
        "the pool has no room now",
        Said("geth", -32000, "txpool is full"),
        Said("reth", -32003, "txpool is full"),
        Said("geth", -32000, "account limit exceeded"),
    ),
    _row(
        Outcome.GAP,
        r"nonce too high|nonce too far|noncegap|future transaction tries to replace pending",
        "an earlier nonce is missing at this node: the same bytes later",
        Said("geth", -32000, "nonce too high: tx nonce 9, gapped nonce 5"),
        Said("reth", -32000, "nonce too high"),
        Said("nitro", -32000, "nonce too high: address 0x00, tx: 9 state: 5"),
        Said("Besu", -32006, "Nonce too high"),
        Said("Besu", -32000, "Transaction nonce too far in the future"),
        Said("geth", -32000, "future transaction tries to replace pending"),
        Said("Nethermind", -32010, "NonceGap, Future nonce. Expected nonce: 5"),
    ),
    _row(
        Outcome.FEE_TOO_LOW,
        r"replacement transaction underpriced|replacementnotallowed",
        "something else holds the nonce in the pool and pays as much or more: it must be one of ours",
        Said("geth, reth", -32000, "replacement transaction underpriced"),
        Said("Besu", -32000, "Replacement transaction underpriced"),
        Said("anvil", -32003, "replacement transaction underpriced", observed=True),
        Said("Nethermind", -32010, "ReplacementNotAllowed"),
    ),
    _row(
        Outcome.FEE_TOO_LOW,
        r"underpriced|gas price below|priority fee below|below current base fee"
        r"|max fee per gas less than block base fee|feetoolow",
        "the market or the node's own floor is above this price",
        Said("geth, reth", -32000, "transaction underpriced"),
        Said("geth", -32000, "transaction gas price below minimum: gas tip cap 1, minimum needed 1000000"),
        Said("reth", -32000, "transaction priority fee below minimum required priority fee 1000000"),
        Said("Besu", -32009, "Gas price below configured minimum gas price"),
        Said("Besu", -32009, "Gas price below current base fee"),
        Said("anvil", -32003, "max fee per gas less than block base fee", observed=True),
        Said(
            "nitro",
            -32000,
            "max fee per gas less than block base fee: address 0x00, maxFeePerGas: 1, baseFee: 100000000",
        ),
        Said("Nethermind", -32010, "FeeTooLow, MaxFeePerGas too low"),
    ),
    _row(
        Outcome.FUNDS,
        r"insufficient ?funds|upfront cost exceeds account balance",
        "the balance does not cover value and fee, with what else of the account waits in this pool",
        Said("geth", -32000, "insufficient funds for gas * price + value: balance 1, tx cost 3, overshot 2"),
        Said("reth", -32003, "insufficient funds for gas * price + value: have 1 want 3"),
        Said("Besu", -32004, "Upfront cost exceeds account balance"),
        Said("anvil", -32003, "Insufficient funds for gas * price + value", observed=True),
        Said("Nethermind", -32010, "InsufficientFunds, Balance is 1 less than sending value + gas 3"),
    ),
    _row(
        Outcome.PERMANENT,
        r"intrinsic gas|gas for floor data|exceeds (the )?(block|max transaction) gas limit"
        r"|transaction gas limit (too high|exceeds)",
        "the gas limit is wrong: build again with the same nonce",
        Said("geth", -32000, "intrinsic gas too low: gas 20000, minimum needed 21000"),
        Said("geth", -32000, "insufficient gas for floor data gas cost: gas 21000, minimum needed 22000"),
        Said("reth", -32000, "intrinsic gas too low"),
        Said("Besu", -32003, "Intrinsic gas exceeds gas limit"),
        Said("anvil", -32000, "intrinsic gas too low", observed=True),
        Said("geth, reth", -32000, "exceeds block gas limit"),
        Said("geth", -32000, "transaction gas limit too high (cap: 16777216, tx: 17000000)"),
        Said("reth", -32000, "exceeds max transaction gas limit"),
        Said("Besu", -32005, "Transaction gas limit exceeds block gas limit"),
        Said("anvil", -32000, "intrinsic gas too high -- tx.gas_limit > env.block.gas_limit", observed=True),
    ),
    _row(
        Outcome.PERMANENT,
        r"exceeds the configured cap",
        "this node's own fee cap is below ours: a matter of configuration",
        Said("geth", -32000, "tx fee (1.20 ether) exceeds the configured cap (1.00 ether)"),
        Said("reth", -32000, "tx fee (1200000000000000000 wei) exceeds the configured cap (1 wei)"),
    ),
    _row(
        Outcome.PERMANENT,
        r"max priority fee per gas higher than max fee per gas|invalid sender|invalid signature"
        r"|invalid chain id|wrong chainid|only replay-protected|type not supported|negative value"
        r"|oversized data|\brlp: |failed to decode|expected a valid hex string|nonce has max value"
        r"|sender account not authorized",
        "the bytes themselves are wrong, here at least: a bug of ours or the wrong chain",
        Said("geth, reth", -32000, "max priority fee per gas higher than max fee per gas"),
        Said("anvil", -32003, "max priority fee per gas higher than max fee per gas", observed=True),
        Said("geth", -32000, "invalid sender"),
        Said("geth", -32000, "invalid chain id for signer: have 1 want 5"),
        Said("anvil", -32003, "invalid chain id for signer", observed=True),
        Said("reth", -32000, "invalid chain ID"),
        Said("Besu", -32000, "Wrong chainId"),
        Said("Besu", -32002, "Invalid signature"),
        Said("Besu", -32007, "Sender account not authorized to send transactions"),
        Said("geth", -32000, "only replay-protected (EIP-155) transactions allowed over RPC"),
        Said("geth, reth", -32000, "transaction type not supported"),
        Said("geth", -32000, "negative value"),
        Said("geth, reth", -32000, "oversized data: transaction size 140000, limit 131072"),
        Said("geth", -32000, "rlp: element is larger than containing list"),
        Said("anvil", -32602, "Failed to decode transaction", observed=True),
        Said("anvil", -32602, 'invalid value: string "x", expected a valid hex string', observed=True),
        Said("geth", -32000, "nonce has max value"),
    ),
    _row(
        Outcome.RETRY,
        r"limit exceeded|too many requests|rate limit|request timed out|execution timeout|indexing is in progress",
        "the node or the provider before it is busy",
        Said("providers", -32005, "daily request limit exceeded"),
        Said("providers", 429, "Too Many Requests"),
        Said("providers", -32005, "rate limit reached"),
        Said("geth", -32002, "request timed out"),
        Said("geth", -32000, "transaction indexing is in progress"),
    ),
)
"""Read from the top: the first row whose pattern is found decides."""

_TELLING: Final = (
    Outcome.LOOKUP,
    Outcome.FEE_TOO_LOW,
    Outcome.FUNDS,
    Outcome.GAP,
    Outcome.RETRY,
    Outcome.PERMANENT,
)


def classify(message: str, data: object = None) -> Outcome:
    """Return what a refusal means.

    A text that is in no row is RETRY: the same bytes again is the one step that is safe whatever it meant, and
    nothing is ever proven by it.
    """
    for text in (message, data):
        if isinstance(text, str):
            for row in REFUSALS:
                if row.pattern.search(text):
                    return row.outcome
    return Outcome.RETRY


def most_telling(outcomes: list[Outcome]) -> Outcome:
    """Return the outcome that says most of several nodes' refusals; PERMANENT only when all say it."""
    return min(outcomes, key=_TELLING.index)
