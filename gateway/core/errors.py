"""The errors: the class of an error is the next step of whoever catches it.

GatewayError
├── BadRequest          tell the client; nothing was stored
├── ConfigError         tell the operator; refuse to start (all problems at once)
├── StoreError
│   ├── IllegalMove     a bug: the transition is not in the table
│   ├── StaleWrite      someone was first: read again, decide again
│   ├── Duplicate       the identity is taken already
│   ├── LeaseLost       another process owns this now: stop, write nothing
│   └── StoreUnavailable the database is gone or read-only: nothing was written; try again later
├── SignerError
│   ├── SignerUnavailable  nothing was signed: try again later
│   └── SignerRefused      the signer says no to this withdrawal
│       └── JournalAhead   the signer has signed what the store does not know: halt, reconcile first
├── SignedMismatch      the bytes are not what was approved: never send them
├── WouldPayTwice       new bytes would not exclude an earlier payment: a bug, stopped in time; halt
└── ChainError          .chain .call
    ├── NodeUnavailable    it had no effect: try again later
    ├── OutcomeUnknown     it may have had effect: look the hash up, never build anew (only `send` raises it)
    ├── Refused            the node said no to these bytes: .outcome is one of the closed classes
    └── BadReply           the node broke its own protocol: stop, page a human
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum


class GatewayError(Exception):
    """Anything that the gateway itself reports."""


class BadRequest(GatewayError):
    """The request is wrong; nothing was stored. `field` names the part that is."""

    def __init__(self, message: str, *, field: str = "", code: int = 1400) -> None:
        super().__init__(message)
        self.field = field
        self.code = code


class ConfigError(GatewayError):
    """The configuration is wrong: every problem that was found, at once."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = tuple(problems)


class StoreError(GatewayError):
    """The store refused or failed."""


class IllegalMove(StoreError):
    """A transition that the table does not hold: a bug of ours."""


class StaleWrite(StoreError):
    """Somebody changed the row first; the whole database transaction was rolled back."""


class Duplicate(StoreError):
    """An identity that must be unique for ever is taken."""


class LeaseLost(StoreError):
    """Another process owns what was about to be written; nothing was written."""


class StoreUnavailable(StoreError):
    """The database does not answer or cannot be written; nothing was written."""


class SignerError(GatewayError):
    """The signer gave no signature."""


class SignerUnavailable(SignerError):
    """The signer cannot be reached or opened now."""


class SignerRefused(SignerError):
    """The signer refuses to sign this."""


class JournalAhead(SignerRefused):
    """The signer's journal holds signatures that the store does not know."""


class SignedMismatch(GatewayError):
    """Signed bytes do not decode to the approved intent."""


class WouldPayTwice(GatewayError):
    """New bytes were about to be signed that do not exclude an earlier payment."""


class ChainError(GatewayError):
    """Something about one call to one chain. `chain` is the configured name, `call` the call's name."""

    def __init__(self, message: str, *, chain: str, call: str) -> None:
        super().__init__(f"{chain}: {call}: {message}")
        self.message = message
        self.chain = chain
        self.call = call


class NodeUnavailable(ChainError):
    """The call had no effect."""


class OutcomeUnknown(ChainError):
    """The call may have had an effect."""


class BadReply(ChainError):
    """The node's answer is not one that its protocol allows."""


class Outcome(StrEnum):
    """What a node's answer to a send means: the closed set that every refusal table maps to."""

    ACCEPTED = "accepted"
    ALREADY_KNOWN = "already-known"
    LOOKUP = "lookup"
    RETRY = "retry"
    FEE_TOO_LOW = "fee-too-low"
    GAP = "gap"
    EXPIRED = "expired"
    FUNDS = "funds"
    PERMANENT = "permanent"


class Refused(ChainError):
    """The node said no to these bytes; whether they can still land is not decided by that."""

    def __init__(self, message: str, *, chain: str, call: str, outcome: Outcome, node: str = "") -> None:
        super().__init__(message, chain=chain, call=call)
        self.outcome = outcome
        self.node = node
