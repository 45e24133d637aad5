"""What the tracker keeps: live attempts, headers of the present chain, inclusions, confirmations, foreign spends."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime

from sqlalchemy import bindparam, delete, insert, select, update

from db.rows import read_attempts
from db.schema import attempt_claims, attempts, broadcast_attempts, headers, slots, spends, withdrawals
from db.schema import confirmations as confirmation_rows
from db.session import Part, chunks, ordered, whole
from gateway.core.chain import BlockRef
from gateway.core.errors import StaleWrite
from gateway.core.ids import AttemptId, uuid7
from gateway.core.records import Attempt, Confirmation, Inclusion, Spend


class TrackReader(Part):
    """Reads."""

    async def live(self, chain: str) -> Sequence[Attempt]:
        """Every signed attempt of a chain that is not closed, oldest first."""
        return await read_attempts(
            self._sql, attempts.c.chain == chain, attempts.c.closed.is_(False), attempts.c.raw.is_not(None)
        )

    async def unindexed(self, chain: str) -> Sequence[Attempt]:
        """Open signed attempts of a chain that its tracker has not taken into its index."""
        return await read_attempts(
            self._sql,
            attempts.c.chain == chain,
            attempts.c.closed.is_(False),
            attempts.c.indexed.is_(False),
            attempts.c.raw.is_not(None),
        )

    async def headers(self, chain: str, limit: int) -> Sequence[BlockRef]:
        """The newest headers of the present chain, highest first."""
        rows = await self._sql.rows(
            select(headers).where(headers.c.chain == chain).order_by(headers.c.height.desc()).limit(limit)
        )
        return [BlockRef(row.height, row.hash, row.parent) for row in rows]

    async def header_at(self, chain: str, height: int) -> BlockRef | None:
        rows = await self._sql.rows(select(headers).where(headers.c.chain == chain, headers.c.height == height))
        return BlockRef(rows[0].height, rows[0].hash, rows[0].parent) if rows else None

    async def spends(self, chain: str) -> Sequence[Spend]:
        """Foreign spends of the present chain whose claim is still held by an open attempt."""
        rows = await self._sql.rows(
            select(spends)
            .join(slots, (slots.c.chain == spends.c.chain) & (slots.c.claim == spends.c.claim))
            .where(spends.c.chain == chain, slots.c.closed.is_(False))
            .order_by(spends.c.block_height, spends.c.claim)
        )
        return [
            Spend(
                chain=row.chain,
                claim=row.claim,
                tx_hash=row.tx_hash,
                block=BlockRef(row.block_height, row.block_hash, row.block_parent),
                pays_intent=bool(row.pays_intent),
            )
            for row in rows
        ]


class TrackWriter(TrackReader):
    """Writes."""

    @whole
    async def mark_indexed(self, ids: Sequence[AttemptId]) -> None:
        for chunk in chunks(ordered(ids)):
            await self._sql.run(update(attempts).where(attempts.c.id.in_(chunk)).values(indexed=True))

    @whole
    async def add_header(self, chain: str, ref: BlockRef, *, keep: int) -> None:
        """Add the next header; headers more than `keep` under it are forgotten. StaleWrite: the height is taken."""
        await self._sql.run(
            insert(headers).values(chain=chain, height=ref.height, hash=ref.hash, parent=ref.parent),
            taken=StaleWrite,
        )
        await self._sql.run(delete(headers).where(headers.c.chain == chain, headers.c.height < ref.height - keep))

    @whole
    async def orphan(self, chain: str, refs: Sequence[BlockRef], at: datetime) -> None:
        """Blocks left the chain: drop the headers, their spends and inclusions, set `reorged_at` on their rows."""
        for left in chunks(ordered(ref.hash for ref in refs)):
            await self._sql.run(delete(headers).where(headers.c.chain == chain, headers.c.hash.in_(left)))
            await self._sql.run(delete(spends).where(spends.c.chain == chain, spends.c.block_hash.in_(left)))
            await self._sql.run(
                update(attempts)
                .where(attempts.c.chain == chain, attempts.c.included_hash.in_(left))
                .values(included_height=None, included_hash=None, included_parent=None, ok=True, fee=None)
            )
            # Two chains may know a block by one hash (a fork of a network): only this chain's rows.
            rows = await self._sql.rows(
                select(confirmation_rows.c.id)
                .join(
                    broadcast_attempts,
                    broadcast_attempts.c.id == confirmation_rows.c.broadcast_attempt_id,
                )
                .join(withdrawals, withdrawals.c.id == broadcast_attempts.c.withdrawal_id)
                .where(
                    confirmation_rows.c.block_hash.in_(left),
                    confirmation_rows.c.reorged_at.is_(None),
                    withdrawals.c.chain == chain,
                )
            )
            for chunk in chunks(ordered(row.id for row in rows)):
                await self._sql.change(
                    update(confirmation_rows)
                    .where(confirmation_rows.c.id.in_(chunk), confirmation_rows.c.reorged_at.is_(None))
                    .values(reorged_at=at),
                    len(chunk),
                    "confirmations of orphaned blocks",
                )

    @whole
    async def include(self, landed: Mapping[AttemptId, Inclusion]) -> None:
        """Note in which block an attempt stands, whether it executed and what it cost."""
        if not landed:
            return
        signed = await self._sql.rows_among(
            select(attempts.c.id)
            .where(attempts.c.raw.is_not(None))
            .order_by(attempts.c.id)
            .with_for_update(key_share=True),
            attempts.c.id,
            ordered(landed),
        )
        if len(signed) != len(landed):
            raise StaleWrite(f"{len(landed) - len(signed)} of the included attempts were never signed")
        await self._sql.run(
            update(attempts)
            .where(attempts.c.id == bindparam("key"))
            .values(
                included_height=bindparam("height"),
                included_hash=bindparam("block"),
                included_parent=bindparam("parent"),
                ok=bindparam("executed"),
                fee=bindparam("cost"),
            ),
            [
                {
                    "key": key,
                    "height": found.block.height,
                    "block": found.block.hash,
                    "parent": found.block.parent,
                    "executed": found.ok,
                    "cost": found.fee,
                }
                for key, found in landed.items()
            ],
        )

    @whole
    async def confirm(self, rows: Sequence[Confirmation]) -> None:
        if not rows:
            return
        await self._sql.run(
            insert(confirmation_rows),
            [
                {
                    "id": uuid7(row.confirmed_at),
                    "broadcast_attempt_id": row.broadcast_id,
                    "block_hash": row.block_hash,
                    "block_height": row.block_height,
                    "confirmed_at": row.confirmed_at,
                    "reorged_at": row.reorged_at,
                }
                for row in rows
            ],
        )

    @whole
    async def add_spend(self, spend: Spend) -> None:
        """Add a foreign spend; the same one again is harmless."""
        same = (
            spends.c.chain == spend.chain,
            spends.c.claim == spend.claim,
            spends.c.block_hash == spend.block.hash,
        )
        if await self._sql.rows(select(spends.c.claim).where(*same)):
            return
        await self._sql.run(
            insert(spends).values(
                chain=spend.chain,
                claim=spend.claim,
                tx_hash=spend.tx_hash,
                block_height=spend.block.height,
                block_hash=spend.block.hash,
                block_parent=spend.block.parent,
                pays_intent=spend.pays_intent,
            ),
            taken=StaleWrite,
        )

    @whole
    async def close(self, ids: Sequence[AttemptId]) -> None:
        """Attempts are final: they leave the tracker; their claims stay taken for ever."""
        for chunk in chunks(ordered(ids)):
            await self._sql.change(
                update(attempts).where(attempts.c.id.in_(chunk)).values(closed=True), len(chunk), "close"
            )
            families = select(attempts.c.withdrawal_id).where(attempts.c.id.in_(chunk))
            claims = await self._sql.rows(
                select(attempts.c.id, attempts.c.chain, attempts.c.closed, attempt_claims.c.claim)
                .join(attempt_claims, attempt_claims.c.attempt_id == attempts.c.id)
                .where(attempts.c.withdrawal_id.in_(families))
            )
            running = {(row.chain, row.claim) for row in claims if not row.closed}
            closing = set(chunk)
            done: dict[str, set[str]] = defaultdict(set)
            for row in claims:
                if row.id in closing and (row.chain, row.claim) not in running:
                    done[row.chain].add(row.claim)
            for chain, names in done.items():
                for part in chunks(ordered(names)):
                    await self._sql.run(
                        update(slots).where(slots.c.chain == chain, slots.c.claim.in_(part)).values(closed=True)
                    )
