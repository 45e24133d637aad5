"""Nodes that are down or of a wrong chain when `gateway serve` starts."""

from __future__ import annotations

import pytest

from tests.acceptance.cli.desk import Desk

pytestmark = [pytest.mark.devnet, pytest.mark.evm, pytest.mark.bitcoin]


def test_serve_goes_on_trying_while_its_nodes_are_down_and_says_so(desk: Desk, nobody_there: str) -> None:
    for chain in ("evm", "bitcoin"):
        desk.setting("urls", f'["{nobody_there}"]', chain=chain)
    with desk.serving() as server:
        server.wait_for("no node yet, trying again", times=6)
        for chain in ("evm", "bitcoin"):
            assert f"chain={chain}" in server.log.read_text()
        stopped = server.stop()
    assert (stopped.code, "Traceback" in stopped.err) == (130, False), stopped.err


def test_a_wrong_chain_id_ends_serve(desk: Desk) -> None:
    desk.setting("chain_id", "1", chain="evm")
    desk.refused("serve", saying=["chain evm: 127.0.0.1"])
    assert "answers for chain id 31337, not 1" in desk.said[-1]


def test_a_wrong_first_block_ends_serve(desk: Desk) -> None:
    desk.rewrite("chain_id = 31337", f'chain_id = 31337\ngenesis = "0x{"0" * 64}"')
    desk.refused("serve", saying=[f"not 0x{'0' * 64}"])


def test_another_coins_network_ends_serve(desk: Desk) -> None:
    desk.setting("coin", '"litecoin-main"', chain="bitcoin")
    # Its address would be another: that is found first, and the database keeps the account it has.
    desk.refused("serve", saying=["its account on bitcoin is "])
    desk.rewrite('chains = ["evm", "bitcoin"]', 'chains = ["evm"]')
    desk.refused("serve", saying=["litecoin-main begins with"])


def test_one_chain_under_two_names_ends_serve(desk: Desk) -> None:
    text = desk.config_file.read_text()
    begin, end = text.index("[[chain]]"), text.index("[[chain]]", text.index("[[chain]]") + 1)
    twin = text[begin:end].replace('name = "evm"', 'name = "twin"').replace('asset = "ETH"', 'asset = "TWIN"')
    desk.rewrite("[[vault]]", f"{twin}[[vault]]")
    desk.refused("serve", saying=["and so is that of chain "])
