"""Networks by name: which there are, what a missing one says, nodes that run elsewhere."""

from pathlib import Path

import pytest

from devnets.bitcoin import node as bitcoin_node
from devnets.evm import node as evm_node
from devnets.network import Devnet, DevnetMissing, LeverMissing
from devnets.registry import CHAINS, available, create, why_missing
from tests.devnets.presence import need


@pytest.fixture
def nothing_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for chain in CHAINS:
        monkeypatch.delenv(f"GATEWAY_DEVNET_{chain.upper()}_URL", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(evm_node, "NODE_MODULES", tmp_path)
    monkeypatch.setattr(bitcoin_node, "LITECOIND", tmp_path / "litecoind")


def test_an_unknown_chain_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no devnet for 'dogecoin': there are evm, bitcoin"):
        create("dogecoin", tmp_path)


@pytest.mark.parametrize(("chain", "how"), [("evm", "npm ci"), ("bitcoin", "apt-get install litecoind")])
def test_a_missing_node_says_in_one_line_how_to_get_it(
    nothing_installed: None, tmp_path: Path, chain: str, how: str
) -> None:
    assert available() == ()
    with pytest.raises(DevnetMissing, match=how) as missing:
        create(chain, tmp_path)
    assert str(missing.value) == why_missing(chain)
    assert "\n" not in str(missing.value)


def test_a_missing_node_skips_loudly_and_fails_in_ci(nothing_installed: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="npm ci"):
        need("evm")
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="npm ci"):
        need("evm")


def test_bitcoind_on_the_path_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    binary = tmp_path / "bitcoind"
    binary.write_text("#!/bin/sh\n")
    binary.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert bitcoin_node.find() == (binary, bitcoin_node.BITCOIN)


@pytest.mark.devnet
async def test_a_node_that_runs_elsewhere_is_used_but_not_ended(
    devnet: Devnet, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(f"GATEWAY_DEVNET_{devnet.name.upper()}_URL", devnet.url)
    external = create(devnet.name, tmp_path / "unused")
    await external.start()
    assert external.identity == devnet.identity
    height = await devnet.height()
    await external.mine()
    assert await external.height() == height + 1
    for lever in (external.restart, external.pause, external.resume):
        with pytest.raises(LeverMissing):
            await lever()
    await external.stop()
    assert await devnet.height() == height + 1
    assert not (tmp_path / "unused").exists()
