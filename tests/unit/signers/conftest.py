"""What every test of the signer starts from: a key file, its journal and orders to sign."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from uuid import UUID

import pytest

from gateway.core.chain import SigningRequest
from gateway.core.ids import AttemptId, WithdrawalId
from gateway.core.signing import SigningOrder
from gateway.signers.algorithms import SECP256K1_DIGEST
from gateway.signers.keyfile import CHEAP, Password
from gateway.signers.local import LocalSigner

PASSWORD = "correct horse battery staple"


@dataclass(frozen=True)
class Place:
    """Where a signer lives."""

    keys: Path
    journal: Path

    @property
    def head(self) -> Path:
        return self.journal.with_name(self.journal.name + ".head")

    async def open(self) -> LocalSigner:
        return await LocalSigner.open(self.keys, self.journal, Password(PASSWORD))


class MakeOrder(Protocol):
    def __call__(
        self,
        number: int = 1,
        *,
        withdrawal: int | None = None,
        claims: tuple[str, ...] | None = None,
        chain: str = "evm-local",
        record: bytes = b"record",
        requests: tuple[SigningRequest, ...] | None = None,
    ) -> SigningOrder: ...


@pytest.fixture
async def place(tmp_path: Path) -> Place:
    made = Place(tmp_path / "keys.json", tmp_path / "journal")
    await LocalSigner.create(made.keys, made.journal, Password(PASSWORD), work=CHEAP)
    return made


@pytest.fixture
async def signer(place: Place) -> AsyncIterator[LocalSigner]:
    opened = await place.open()
    yield opened
    await opened.close()


@pytest.fixture
def order() -> MakeOrder:
    def make(
        number: int = 1,
        *,
        withdrawal: int | None = None,
        claims: tuple[str, ...] | None = None,
        chain: str = "evm-local",
        record: bytes = b"record",
        requests: tuple[SigningRequest, ...] | None = None,
    ) -> SigningOrder:
        digest = hashlib.sha256(f"transaction {number}".encode()).digest()
        return SigningOrder(
            withdrawal_id=WithdrawalId(UUID(int=number if withdrawal is None else withdrawal)),
            attempt_id=AttemptId(UUID(int=1_000_000 + number)),
            chain=chain,
            address="0xabc",
            claims=(f"0xabc:{number}",) if claims is None else claims,
            record=record,
            requests=requests or (SigningRequest("vault/1", SECP256K1_DIGEST, digest),),
        )

    return make
