"""Transactions as bytes: strict decoding, digests (BIP 143), signatures, the witness of a P2WPKH input."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from embit import ec
from embit.base import EmbitError
from embit.script import Script, Witness, p2pkh
from embit.transaction import SIGHASH, Transaction, TransactionInput, TransactionOutput
from embit.util import secp256k1

from adapters.bitcoin.payload import SEQUENCE, TX_VERSION, Draft, Output

MAX_BYTES = 400_000
"""The largest standard transaction; nothing of ours comes near it."""


@dataclass(frozen=True, slots=True)
class Input:
    """An input of a decoded transaction."""

    claim: str
    sequence: int
    script_sig: bytes
    witness: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Decoded:
    """What bytes say, without any knowledge of what they should say."""

    txid: str
    version: int
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    locktime: int
    vsize: int


@lru_cache(maxsize=1024)
def decode(raw: bytes) -> Decoded:
    """Read a whole transaction. Raises ValueError unless writing it again gives the same bytes.

    Remembered, because whatever waits in a lane is read again for every payment that is built.
    """
    if len(raw) > MAX_BYTES:
        raise ValueError("larger than any standard transaction")
    try:
        tx = Transaction.parse(raw)
        same = tx.serialize() == raw
    except (EmbitError, ValueError, RuntimeError, OverflowError, IndexError, TypeError) as error:
        raise ValueError(f"not a transaction: {error}") from error
    if not same:
        raise ValueError("not a transaction in the one form that nodes take")
    stripped = _without_witness(tx)
    return Decoded(
        txid=tx.txid().hex(),
        version=tx.version,
        inputs=tuple(
            Input(
                claim=f"{vin.txid.hex()}:{vin.vout}",
                sequence=vin.sequence,
                script_sig=bytes(vin.script_sig.data),
                witness=tuple(bytes(item) for item in vin.witness.items),
            )
            for vin in tx.vin
        ),
        outputs=tuple(Output(bytes(out.script_pubkey.data), out.value) for out in tx.vout),
        locktime=tx.locktime,
        vsize=(3 * stripped + len(raw) + 3) // 4,
    )


def unsigned(draft: Draft) -> Transaction:
    """Return the library's transaction of a draft, without witnesses."""
    return Transaction(
        version=TX_VERSION,
        vin=[TransactionInput(bytes.fromhex(s.txid), s.vout, sequence=SEQUENCE) for s in draft.inputs],
        vout=[TransactionOutput(o.amount, Script(o.script)) for o in draft.outputs],
        locktime=draft.locktime,
    )


def digests(draft: Draft, public_key: bytes) -> tuple[bytes, ...]:
    """Return what the key must sign for each input (BIP 143, SIGHASH_ALL); it commits to the amount."""
    tx = unsigned(draft)
    script_code = p2pkh(ec.PublicKey.parse(public_key))
    return tuple(bytes(tx.sighash_segwit(index, script_code, spend.amount)) for index, spend in enumerate(draft.inputs))


def with_witnesses(draft: Draft, public_key: bytes, signatures: list[bytes]) -> tuple[bytes, str]:
    """Return the signed bytes and their txid. Signatures: DER with the hash type, one for each input."""
    tx = unsigned(draft)
    for vin, signature in zip(tx.vin, signatures, strict=True):
        vin.witness = Witness([signature, public_key])
    return bytes(tx.serialize()), tx.txid().hex()


def der_of(compact: bytes) -> bytes:
    """Write 64 bytes r‖s as a DER signature with SIGHASH_ALL. Raises ValueError when they are none."""
    parsed = secp256k1.ecdsa_signature_parse_compact(compact)
    return bytes(secp256k1.ecdsa_signature_serialize_der(parsed)) + bytes([SIGHASH.ALL])


def compact_of(der: bytes) -> bytes:
    """Read a DER signature with SIGHASH_ALL into 64 bytes r‖s. Raises ValueError for any other form."""
    if len(der) < 9 or der[-1] != SIGHASH.ALL:
        raise ValueError("not a signature of everything (SIGHASH_ALL)")
    parsed = secp256k1.ecdsa_signature_parse_der(der[:-1])
    if secp256k1.ecdsa_signature_serialize_der(parsed) != der[:-1]:
        raise ValueError("not strict DER (BIP 66)")
    return bytes(secp256k1.ecdsa_signature_serialize_compact(parsed))


def is_signed_by(public_key: bytes, digest: bytes, compact: bytes) -> bool:
    """Say whether 64 bytes r‖s are this key's signature of a digest; one with a high s is not."""
    try:
        parsed = secp256k1.ecdsa_signature_parse_compact(compact)
        key = secp256k1.ec_pubkey_parse(public_key)
    except ValueError:
        return False
    return bool(secp256k1.ecdsa_verify(parsed, digest, key))


def _without_witness(tx: Transaction) -> int:
    return len(
        Transaction(
            version=tx.version,
            vin=[TransactionInput(v.txid, v.vout, v.script_sig, v.sequence) for v in tx.vin],
            vout=tx.vout,
            locktime=tx.locktime,
        ).serialize()
    )
