"""Which transactions of removed Bitcoin blocks still fit on a branch that holds others instead."""

from devnets.bitcoin.branch import Tx, without_conflicts


def tx(txid: str, *spends: str) -> Tx:
    return Tx(txid, f"raw {txid}", frozenset((parent, 0) for parent in spends))


def test_everything_fits_where_nothing_is_put_instead() -> None:
    blocks = [[tx("a", "x")], [], [tx("b", "a")]]
    assert without_conflicts(blocks, []) == blocks


def test_what_spends_the_same_is_left_out_with_all_its_descendants() -> None:
    blocks = [[tx("a", "x"), tx("b", "y")], [tx("c", "a")], [tx("d", "c", "b"), tx("e", "b")]]
    assert without_conflicts(blocks, [tx("new", "x")]) == [[blocks[0][1]], [], [blocks[2][1]]]


def test_a_transaction_put_instead_is_not_there_twice() -> None:
    same = tx("a", "x")
    assert without_conflicts([[same, tx("b", "a")]], [same]) == [[tx("b", "a")]]
