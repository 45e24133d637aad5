"""What differs between the coins of the family, and what an operator may set for one configured chain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from adapters.transport.jsonrpc import endpoint_name
from gateway.core.chain import FeeLevel
from gateway.core.errors import ConfigError

DECIMALS = 8
COIN_UNITS = 10**DECIMALS
COINBASE_MATURITY = 100
MAX_MONEY = 2**63 - 1
"""Above every coin's supply; the amount field of an output is signed (CAmount)."""


@dataclass(frozen=True, slots=True)
class Coin:
    """One coin on one network. Rates in base units per 1 000 virtual bytes.

    `chain` is what `getblockchaininfo` calls the network, `old_p2sh` a version byte that once meant P2SH here
    and means it on another coin still. `dust_fixed` replaces the dust rate where a coin has a flat limit.
    """

    name: str
    chain: str
    asset: str
    genesis: str
    p2pkh: int
    p2sh: int
    hrp: str
    """Human-readable part of segwit addresses; empty: the coin has no segwit."""
    old_p2sh: int | None
    finality_depth: int
    threshold: int
    dust_rate: int
    fee_floor: int
    fee_cap: int
    fee_fallback: int
    dust_fixed: int | None = None


def _bitcoin(chain: str, genesis: str, hrp: str, asset: str = "BTC_TEST") -> Coin:
    main = chain == "main"
    return Coin(
        name="bitcoin",
        chain=chain,
        asset=asset,
        genesis=genesis,
        p2pkh=0x00 if main else 0x6F,
        p2sh=0x05 if main else 0xC4,
        hrp=hrp,
        old_p2sh=None,
        finality_depth=6,
        threshold=3,
        dust_rate=3_000,
        fee_floor=1_000,
        fee_cap=500_000,
        fee_fallback=5_000,
    )


def _litecoin(chain: str, genesis: str, hrp: str, asset: str = "LTC_TEST") -> Coin:
    main = chain == "main"
    return Coin(
        name="litecoin",
        chain=chain,
        asset=asset,
        genesis=genesis,
        p2pkh=0x30 if main else 0x6F,
        p2sh=0x32 if main else 0x3A,
        hrp=hrp,
        old_p2sh=0x05 if main else 0xC4,
        finality_depth=12,
        threshold=6,
        dust_rate=30_000,
        fee_floor=1_000,
        fee_cap=1_000_000,
        fee_fallback=10_000,
    )


def _dogecoin(chain: str, genesis: str, p2pkh: int, p2sh: int, asset: str = "DOGE_TEST") -> Coin:
    return Coin(
        name="dogecoin",
        chain=chain,
        asset=asset,
        genesis=genesis,
        p2pkh=p2pkh,
        p2sh=p2sh,
        hrp="",
        old_p2sh=None,
        finality_depth=60,
        threshold=20,
        dust_rate=0,
        dust_fixed=1_000_000,
        fee_floor=1_000_000,
        fee_cap=100_000_000,
        fee_fallback=1_000_000,
    )


COINS: Mapping[str, Coin] = {
    "bitcoin-main": _bitcoin("main", "000000000019d6689c085ae165831e934ff763ae46a2a6c172b3f1b60a8ce26f", "bc", "BTC"),
    "bitcoin-test": _bitcoin("test", "000000000933ea01ad0ee984209779baaec3ced90fa3f408719526f8d77f4943", "tb"),
    "bitcoin-testnet4": _bitcoin("testnet4", "00000000da84f2bafbbc53dee25a72ae507ff4914b867c565be350b0da8bf043", "tb"),
    "bitcoin-signet": _bitcoin("signet", "00000008819873e925422c1ff0f99f7cc9bbb232af63a077a480a3633bee1ef6", "tb"),
    "bitcoin-regtest": _bitcoin("regtest", "0f9188f13cb7b2c71f2a335e3a4fc328bf5beb436012afca590b1a11466e2206", "bcrt"),
    "litecoin-main": _litecoin(
        "main", "12a765e31ffd4059bada1e25190f6e98c99d9714d334efa41a195a7e7e04bfe2", "ltc", "LTC"
    ),
    "litecoin-test": _litecoin("test", "4966625a4b2851d9fdee139e56211a0d88575f59ed816ff5e6a63deb4e3e29a0", "tltc"),
    "litecoin-regtest": _litecoin(
        "regtest", "530827f38f93b43ed12af0b3ad25a288dc02ed74d6d7857862df51fc56c416f9", "rltc"
    ),
    "dogecoin-main": _dogecoin(
        "main", "1a91e3dace36e2be3bf030a65679fe821aa1d6ef92e7c9902eb318182c355691", 0x1E, 0x16, "DOGE"
    ),
    "dogecoin-test": _dogecoin("test", "bb0a78264637406b6360aad926284d544d7049f45189db5664f3c4d07350559e", 0x71, 0xC4),
    "dogecoin-regtest": _dogecoin(
        "regtest", "3d2160a3b5dc4a9d62e7e66a295f70313ac808440ef7400d6c0772171ce973a5", 0x6F, 0xC4
    ),
}
"""Every coin by the name that a configuration uses."""

ConfTarget = Annotated[int, Field(ge=1, le=1008)]
Rate = Annotated[Decimal, Field(gt=0, le=1_000_000, max_digits=12)]


def _targets() -> dict[FeeLevel, ConfTarget]:
    return {FeeLevel.LOW: 24, FeeLevel.MEDIUM: 6, FeeLevel.HIGH: 2}


class Settings(BaseModel):
    """One configured chain. Rates in base units per virtual byte; what is left out is the coin's own."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    coin: Literal[
        "bitcoin-main",
        "bitcoin-test",
        "bitcoin-testnet4",
        "bitcoin-signet",
        "bitcoin-regtest",
        "litecoin-main",
        "litecoin-test",
        "litecoin-regtest",
        "dogecoin-main",
        "dogecoin-test",
        "dogecoin-regtest",
    ]
    """Which coin on which network; every node must have its first block."""
    urls: Annotated[list[str], Field(min_length=1)]
    """The nodes: http or https, with user and password."""
    asset: str | None = None
    """The id of the coin in requests; the coin's own if not set."""
    threshold: Annotated[int | None, Field(ge=1)] = None
    """Confirmations to COMPLETED; the coin's own if not set."""
    finality_depth: Annotated[int | None, Field(ge=1)] = None
    """Confirmations from which a block counts as final; the coin's own if not set."""
    lane_depth: Annotated[int, Field(ge=1, le=25)] = 25
    """How many payments of a vault may wait at once; nodes keep 25 in a chain."""
    max_inputs: Annotated[int, Field(ge=1, le=500)] = 100
    """The most coins that one payment may spend."""
    fee_floor: Rate | None = None
    """The lowest rate ever paid; the coin's own if not set."""
    fee_cap: Rate | None = None
    """The highest rate ever paid; the coin's own if not set."""
    fallback_fee: Rate | None = None
    """The rate where a node has no estimate; the coin's own if not set."""
    conf_targets: dict[FeeLevel, ConfTarget] = Field(default_factory=_targets)
    """Within how many blocks each fee level wants to be included."""
    max_fee: Annotated[int, Field(ge=1, le=COIN_UNITS)] = 1_000_000
    """The most that one withdrawal may cost, in base units, whatever its order allows."""
    replacement: Literal["auto", "yes", "no"] = "auto"
    """Whether the nodes replace a pending transaction; "auto": what can be read from them (see node.py)."""
    poll_interval: Annotated[float, Field(gt=0, le=600)] = 2.0
    """Seconds between two looks for a new head."""
    timeout: Annotated[float, Field(gt=0, le=600)] = 30.0
    """Seconds that one call may take; a scan for coins on a large network takes long."""
    explorer: str = ""
    """Where people look a hash up; kept for the API."""

    @field_validator("urls")
    @classmethod
    def _lead_somewhere(cls, urls: list[str]) -> list[str]:
        for url in urls:
            try:
                endpoint_name(url)
            except ConfigError as error:
                raise ValueError(str(error)) from None
        return urls

    @model_validator(mode="after")
    def _agree(self) -> Settings:
        missing = [level for level in FeeLevel if level not in self.conf_targets]
        if missing:
            raise ValueError(f"conf_targets lacks {', '.join(missing)}")
        if self.floor > self.cap:
            raise ValueError("fee_floor is above fee_cap")
        return self

    @property
    def params(self) -> Coin:
        """The coin's table."""
        return COINS[self.coin]

    @property
    def floor(self) -> int:
        """Lowest rate ever paid, per 1 000 virtual bytes."""
        return self.params.fee_floor if self.fee_floor is None else per_kvb(self.fee_floor)

    @property
    def cap(self) -> int:
        """Highest rate ever paid, per 1 000 virtual bytes."""
        return self.params.fee_cap if self.fee_cap is None else per_kvb(self.fee_cap)

    @property
    def fallback(self) -> int:
        """The rate where a node has no estimate, per 1 000 virtual bytes."""
        return self.params.fee_fallback if self.fallback_fee is None else per_kvb(self.fallback_fee)

    @property
    def depth(self) -> int:
        """Confirmations from which a block is taken as final."""
        return self.params.finality_depth if self.finality_depth is None else self.finality_depth


def per_kvb(rate: Decimal) -> int:
    """Return a rate per virtual byte as one per 1 000 virtual bytes, rounded up."""
    return int((rate * 1000).to_integral_value(ROUND_CEILING))


def read_settings(name: str, raw: Mapping[str, object]) -> Settings:
    """Check one chain's configuration. Raises ConfigError with every problem found."""
    try:
        settings = Settings.model_validate(dict(raw))
    except ValidationError as error:
        raise ConfigError(
            [
                f"chain {name}: {'.'.join(map(str, problem['loc'])) or 'settings'}: {problem['msg']}"
                for problem in error.errors(include_url=False, include_input=False)
            ]
        ) from error
    if not settings.params.hrp:
        raise ConfigError(
            [
                f"chain {name}: {settings.params.name} has no segwit, and vaults with legacy addresses are"
                " not supported yet, so no lane can be opened on it"
            ]
        )
    return settings
