"""What nodes of the family answer to `sendrawtransaction`, and what each answer means for the bytes.

Bitcoin Core 0.21 to 31, Litecoin Core 0.21, Dogecoin Core 1.14. A refusal says something about one node at one
moment: it never proves that the bytes cannot land. Text that no row knows means: look the hash up.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from gateway.core.errors import Outcome

MISSING_INPUTS = -25
REJECTED = -26
IN_CHAIN = -27
UNREADABLE = -22
WARMING_UP = -28
QUEUE_FULL = -37
NOT_CONNECTED = -9
STILL_DOWNLOADING = -10
WRONG_TYPE = -3
WRONG_PARAMETER = -8


@dataclass(frozen=True, slots=True)
class Row:
    """One refusal. `text` matches at the start of the message, any code where `code` is None.

    `example` is a whole message; `observed`: a node of the devnet gave it to a test here, word for word or with
    other numbers. `note` is for people.
    """

    code: int | None
    text: str
    outcome: Outcome
    example: str
    observed: bool = False
    note: str = ""
    pattern: re.Pattern[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "pattern", re.compile(self.text, re.IGNORECASE))

    def matches(self, code: int, message: str) -> bool:
        """Say whether this row is about an answer."""
        return self.code in (None, code) and self.pattern.match(message) is not None


def _reason(text: str, outcome: Outcome, example: str = "", *, observed: bool = False, note: str = "") -> Row:
    """A reject reason: alone, or with ", <debug>" (or " (<debug>)", or " (code n)" of old nodes) after it."""
    return Row(REJECTED, rf"(?:\d+: )?{text}(?:$|[ ,;])", outcome, example or text, observed, note)


KNOWN, LOOKUP, RETRY = Outcome.ALREADY_KNOWN, Outcome.LOOKUP, Outcome.RETRY
FEE, PERMANENT = Outcome.FEE_TOO_LOW, Outcome.PERMANENT

TABLE: tuple[Row, ...] = (
    # Codes of their own.
    Row(IN_CHAIN, "", KNOWN, "Transaction outputs already in utxo set", note="Core 28 and later"),
    Row(IN_CHAIN, "", KNOWN, "Transaction already in block chain", observed=True, note="before, and Litecoin"),
    Row(IN_CHAIN, "", KNOWN, "transaction already in block chain", note="Dogecoin"),
    Row(
        MISSING_INPUTS,
        r"bad-txns-inputs-missingorspent|missing ?inputs",
        LOOKUP,
        "bad-txns-inputs-missingorspent",
        observed=True,
        note="a parent is missing, or another spent an input, or ours landed and all its outputs are spent",
    ),
    Row(MISSING_INPUTS, r"missing ?inputs", LOOKUP, "Missing inputs", note="Core up to 0.18, Dogecoin"),
    Row(
        MISSING_INPUTS,
        r"fee exceeds maximum configured by user",
        PERMANENT,
        "Fee exceeds maximum configured by user (e.g. -maxtxfee, maxfeerate)",
        observed=True,
        note="the cap that we hand over ourselves",
    ),
    Row(
        None,
        r"max-fee-exceeded",
        PERMANENT,
        "max-fee-exceeded",
        note="the same, of testmempoolaccept",
    ),
    Row(
        MISSING_INPUTS,
        r"unspendable output exceeds maximum configured by user",
        PERMANENT,
        "Unspendable output exceeds maximum configured by user (maxburnamount)",
    ),
    Row(
        UNREADABLE,
        "",
        PERMANENT,
        "TX decode failed. Make sure the tx has at least one input.",
        observed=True,
    ),
    Row(WARMING_UP, "", RETRY, "Loading block index…", note="any text: the node starts"),
    Row(WARMING_UP, "", RETRY, "Rewinding blocks...", note="Litecoin"),
    Row(QUEUE_FULL, "", RETRY, "Private broadcast queue is full", note="Core 32"),
    Row(NOT_CONNECTED, "", RETRY, "Bitcoin is not connected!"),
    Row(STILL_DOWNLOADING, "", RETRY, "Bitcoin is downloading blocks..."),
    Row(None, r"work queue depth exceeded", RETRY, "Work queue depth exceeded", note="with HTTP 503"),
    # The node has it.
    _reason(r"txn-already-in-mempool", KNOWN, note="only of testmempoolaccept and submitpackage", observed=True),
    _reason(r"txn-already-known", KNOWN, observed=True, note="only of testmempoolaccept: in a block"),
    _reason(r"txn-same-nonwitness-data-in-mempool", KNOWN),
    # An input is spent by something else that waits.
    _reason(
        r"txn-mempool-conflict", LOOKUP, observed=True, note="no replacement here: Litecoin's and Dogecoin's default"
    ),
    _reason(r"bip125-replacement-disallowed", PERMANENT),
    # More would be taken. Amounts are satoshi in the first two and coins in the others.
    _reason(r"mempool min fee not met", FEE, "mempool min fee not met, 110 < 141", note="the pool is full of better"),
    _reason(r"min relay fee not met", FEE, "min relay fee not met, 1 < 110", observed=True),
    _reason(r"mempool full", FEE),
    _reason(
        r"insufficient fee",
        FEE,
        "insufficient fee, rejecting replacement 6f…; new feerate 0.00018172 LTC/kvB <= old feerate 0.00018181 LTC/kvB",
        observed=True,
    ),
    _reason(
        r"insufficient fee",
        FEE,
        "insufficient fee, rejecting replacement 6f…, less fees than conflicting txs; 0.0002 < 0.00052",
    ),
    _reason(
        r"insufficient fee",
        FEE,
        "insufficient fee, rejecting replacement 6f…, not enough additional fees to relay; 0.00000001 < 0.0000011",
        observed=True,
    ),
    _reason(
        r"replacement-failed",
        FEE,
        "replacement-failed, insufficient feerate: does not improve feerate diagram",
        note="Core 31",
    ),
    _reason(r"insufficient priority", FEE, "insufficient priority", note="Dogecoin: free transactions"),
    # The same bytes later.
    _reason(
        r"too many potential replacements",
        RETRY,
        "too many potential replacements, rejecting replacement 6f…; too many potential replacements (101 > 100)",
        note="it would evict too many: wait for a block",
    ),
    _reason(
        r"too-long-mempool-chain",
        RETRY,
        "too-long-mempool-chain, too many unconfirmed ancestors [limit: 25]",
        observed=True,
    ),
    _reason(r"too-large-cluster", RETRY, note="Core 31"),
    _reason(r"TRUC-violation", RETRY, "TRUC-violation, tx 6f… would have too many ancestors"),
    _reason(r"non-final", RETRY, observed=True),
    _reason(r"non-BIP68-final", RETRY, observed=True),
    _reason(
        r"bad-txns-premature-spend-of-coinbase",
        RETRY,
        "bad-txns-premature-spend-of-coinbase, tried to spend coinbase at depth 1",
        observed=True,
    ),
    # Never, as built.
    _reason(
        r"replacement-adds-unconfirmed",
        PERMANENT,
        "replacement-adds-unconfirmed, replacement 6f… adds unconfirmed input, idx 1",
        observed=True,
        note="up to Core 30",
    ),
    _reason(
        r"bad-txns-spends-conflicting-tx",
        PERMANENT,
        "bad-txns-spends-conflicting-tx, 6f… spends conflicting transaction 7e…",
        observed=True,
    ),
    _reason(r"dust", PERMANENT, "dust, tx with dust output must be 0-fee"),
    _reason(r"dust", PERMANENT, observed=True),
    _reason(r"missing-ephemeral-spends", PERMANENT),
    _reason(r"scriptpubkey", PERMANENT, observed=True),
    _reason(r"scriptsig-size", PERMANENT, observed=True),
    _reason(r"scriptsig-not-pushonly", PERMANENT, observed=True),
    _reason(r"version", PERMANENT, observed=True),
    _reason(r"tx-size", PERMANENT, observed=True),
    _reason(r"tx-size-small", PERMANENT, observed=True),
    _reason(r"datacarrier", PERMANENT),
    _reason(r"multi-op-return", PERMANENT, observed=True),
    _reason(r"bare-multisig", PERMANENT),
    _reason(r"bad-txns-nonstandard-inputs", PERMANENT),
    _reason(r"bad-witness-nonstandard", PERMANENT),
    _reason(r"bad-txns-too-many-sigops", PERMANENT),
    _reason(
        r"(?:mempool|block)-script-verify-flag-failed",
        PERMANENT,
        "mempool-script-verify-flag-failed (Signature must be zero for failed CHECK(MULTI)SIG operation)",
        note="Core 30: a wrong signature",
    ),
    _reason(
        r"(?:mempool|block)-script-verify-flag-failed",
        PERMANENT,
        "block-script-verify-flag-failed (Script evaluated without error but finished with a false/empty top)",
    ),
    _reason(
        r"(?:non-)?mandatory-script-verify-flag(?:-failed)?",
        PERMANENT,
        "non-mandatory-script-verify-flag (Witness program hash mismatch)",
        observed=True,
    ),
    _reason(
        r"(?:non-)?mandatory-script-verify-flag(?:-failed)?",
        PERMANENT,
        "mandatory-script-verify-flag-failed (Signature must be zero for failed CHECK(MULTI)SIG operation)",
    ),
    _reason(r"bad-txns-in-belowout", PERMANENT, "bad-txns-in-belowout, value in (1) < value out (2)", observed=True),
    _reason(r"bad-txns-vin-empty", PERMANENT),
    _reason(r"bad-txns-vout-[a-z]+", PERMANENT, "bad-txns-vout-empty", observed=True),
    _reason(r"bad-txns-vout-[a-z]+", PERMANENT, "bad-txns-vout-toolarge"),
    _reason(r"bad-txns-txouttotal-toolarge", PERMANENT, observed=True),
    _reason(r"bad-txns-oversize", PERMANENT),
    _reason(r"bad-txns-prevout-null", PERMANENT),
    _reason(r"bad-txns-(?:fee|inputvalues)-outofrange", PERMANENT, "bad-txns-fee-outofrange"),
    _reason(r"bad-txns-inputs-duplicate", PERMANENT, observed=True),
    _reason(r"coinbase", PERMANENT, observed=True),
    _reason(r"max feerate exceeded", PERMANENT),
    _reason(r"absurdly-high-fee", PERMANENT, note="Core up to 0.19, Dogecoin"),
    # A call that is wrong in itself.
    Row(WRONG_TYPE, "", PERMANENT, "Expected type string, got number"),
    Row(WRONG_PARAMETER, "", PERMANENT, "Fee rates larger than or equal to 1BTC/kvB are not accepted"),
)
"""In order: the first row that matches decides."""

UNKNOWN = LOOKUP
"""What an answer means that no row knows."""


def classify(code: int, message: str, data: object = None) -> Outcome:
    """Return what a refusal means. By text where a code has several meanings, by code alone where it has one."""
    del data  # nodes of this family put nothing there
    row = row_of(code, message)
    return UNKNOWN if row is None else row.outcome


def row_of(code: int, message: str) -> Row | None:
    """Return the row that decides, None when no row knows the answer."""
    text = message.strip()
    return next((row for row in TABLE if row.matches(code, text)), None)
