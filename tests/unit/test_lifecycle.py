"""The transition table against a copy written by hand from the specification's prose."""

from pathlib import Path

import pytest

from gateway.core.diagram import state_diagram, transition_table
from gateway.core.errors import IllegalMove
from gateway.core.lifecycle import (
    BEFORE_SIGNED,
    FINAL,
    TRANSITIONS,
    Direction,
    Status,
    check_move,
    check_path,
    is_legal,
    successors,
)
from gateway.lifecycle_page import main, parts, renewed

ROOT = Path(__file__).parents[2]
START = "start"

# One line for one row of the specification: who may leave, and where to.
OUTGOING = """
start                                                   > SUBMITTED PENDING_AML_SCREENING
SUBMITTED                                               > PENDING_AML_SCREENING
SUBMITTED PENDING_AML_SCREENING                         > PENDING_ENRICHMENT
PENDING_AML_SCREENING                                   > REJECTED
REJECTED                                                > PENDING_AML_SCREENING PENDING_ENRICHMENT
SUBMITTED PENDING_ENRICHMENT                            > BLOCKED
PENDING_ENRICHMENT                                      > PENDING_AUTHORIZATION
PENDING_ENRICHMENT                                      > QUEUED
PENDING_AUTHORIZATION                                   > QUEUED
PENDING_AUTHORIZATION                                   > REJECTED
PENDING_AUTHORIZATION                                   > BLOCKED
PENDING_AUTHORIZATION                                   > FAILED
QUEUED                                                  > PENDING_SIGNATURE
PENDING_SIGNATURE                                       > QUEUED
PENDING_SIGNATURE                                       > BROADCASTING
PENDING_SIGNATURE                                       > SIGNED
PENDING_SIGNATURE                                       > COMPLETED
SUBMITTED                                               > COMPLETED
PENDING_SIGNATURE                                       > CANCELLED
PENDING_SIGNATURE                                       > FAILED
PENDING_SIGNATURE                                       > PENDING_3RD_PARTY PENDING_3RD_PARTY_MANUAL_APPROVAL
PENDING_3RD_PARTY PENDING_3RD_PARTY_MANUAL_APPROVAL     > BROADCASTING CANCELLED FAILED
SUBMITTED                                               > CANCELLED
SUBMITTED PENDING_AML_SCREENING PENDING_ENRICHMENT      > CANCELLING
PENDING_AUTHORIZATION QUEUED PENDING_SIGNATURE          > CANCELLING
BROADCASTING CONFIRMING                                 > CANCELLING
CANCELLING                                              > CANCELLED
CANCELLING                                              > CONFIRMING
CANCELLING                                              > FAILED
BROADCASTING                                            > CONFIRMING
BROADCASTING                                            > FAILED
CONFIRMING                                              > COMPLETED
CONFIRMING                                              > FAILED
SIGNED                                                  > CONFIRMING FAILED
COMPLETED                                               > FAILED
FAILED                                                  > QUEUED
FAILED CANCELLED BLOCKED REJECTED                       > PENDING_AML_SCREENING PENDING_ENRICHMENT
FAILED CANCELLED QUEUED PENDING_SIGNATURE               > CONFIRMING
SUBMITTED PENDING_AML_SCREENING PENDING_ENRICHMENT      > FAILED
PENDING_AUTHORIZATION QUEUED PENDING_SIGNATURE          > FAILED
"""
INCOMING = """
start                                                   > PENDING_AML_SCREENING BROADCASTING CONFIRMING
BROADCASTING                                            > CONFIRMING FAILED
PENDING_AML_SCREENING                                   > REJECTED PENDING_3RD_PARTY CONFIRMING
PENDING_3RD_PARTY                                       > CONFIRMING REJECTED
CONFIRMING                                              > COMPLETED FAILED REJECTED
COMPLETED                                               > REJECTED FAILED
REJECTED                                                > PENDING_AML_SCREENING
REJECTED                                                > PENDING_3RD_PARTY CONFIRMING COMPLETED
"""
SPECIFIED = {Direction.OUTGOING: OUTGOING, Direction.INCOMING: INCOMING}

BOTH = pytest.mark.parametrize("direction", list(Direction))


def specified(direction: Direction) -> set[tuple[str, str]]:
    moves = set()
    for row in SPECIFIED[direction].strip().splitlines():
        sources, targets = row.split(">")
        moves |= {(s, t) for s in sources.split() for t in targets.split()}
    return moves


def in_code(direction: Direction) -> set[tuple[str, str]]:
    return {(t.source or START, str(t.target)) for t in TRANSITIONS if t.direction == direction}


@BOTH
def test_the_table_is_the_specification(direction: Direction) -> None:
    assert in_code(direction) - specified(direction) == set(), "moves that nobody asked for"
    assert specified(direction) - in_code(direction) == set(), "moves that are missing"


def test_there_are_seventeen_statuses_whose_names_clients_know() -> None:
    assert len(Status) == 17
    assert all(status.value == status.name for status in Status)


def test_the_final_statuses_are_the_specified_ones() -> None:
    assert {str(s) for s in FINAL} == {"COMPLETED", "CANCELLED", "REJECTED", "BLOCKED", "FAILED"}


def test_nothing_is_signed_before_broadcasting_or_signed() -> None:
    after = {"BROADCASTING", "CONFIRMING", "COMPLETED", "SIGNED", "CANCELLING", *FINAL}
    assert {str(s) for s in BEFORE_SIGNED} == {str(s) for s in Status} - after


@BOTH
def test_every_pair_outside_the_table_is_refused(direction: Direction) -> None:
    legal = specified(direction)
    for source in (None, *Status):
        for target in Status:
            if ((source or START), str(target)) in legal:
                check_move(source, target, direction)
                assert is_legal(source, target, direction)
            else:
                assert not is_legal(source, target, direction)
                with pytest.raises(IllegalMove, match=f"{target} is not a transition"):
                    check_move(source, target, direction)


def test_every_status_is_reached_by_an_outgoing_transaction() -> None:
    assert reachable(None, Direction.OUTGOING) == set(Status)


@BOTH
def test_every_status_that_is_not_final_can_end(direction: Direction) -> None:
    for status in reachable(None, direction) - FINAL:
        assert reachable(status, direction) & FINAL, f"{status} never ends"
        assert successors(status, direction), f"{status} is a dead end"


@BOTH
def test_no_move_leads_to_where_it_starts(direction: Direction) -> None:
    assert not [t for t in TRANSITIONS if t.source == t.target]


@BOTH
def test_no_row_is_written_twice(direction: Direction) -> None:
    rows = [(t.source, t.target, t.when) for t in TRANSITIONS if t.direction == direction]
    assert len(rows) == len(set(rows))
    assert all(when for _, _, when in rows)


def test_a_cancel_never_skips_the_proof_once_bytes_may_be_out() -> None:
    for status in (Status.BROADCASTING, Status.CONFIRMING, Status.SIGNED):
        assert not is_legal(status, Status.CANCELLED)


def test_a_path_is_legal_only_if_each_step_is() -> None:
    check_path(Status.QUEUED, (Status.PENDING_SIGNATURE, Status.BROADCASTING, Status.CONFIRMING))
    with pytest.raises(IllegalMove):
        check_path(Status.QUEUED, (Status.PENDING_SIGNATURE, Status.CONFIRMING, Status.QUEUED))
    with pytest.raises(IllegalMove):
        check_path(Status.QUEUED, ())


@BOTH
def test_the_diagram_has_every_move_once_and_no_other(direction: Direction) -> None:
    lines = state_diagram(direction).splitlines()
    assert lines[0] == "stateDiagram-v2"
    arrows = [line.split(":")[0].split() for line in lines[1:]]
    drawn = [(a.replace("[*]", START), b) for a, _, b in arrows if b != "[*]"]
    assert set(drawn) == specified(direction)
    assert len(drawn) == len(set(drawn))
    assert all(line.count(":") <= 1 and ";" not in line for line in lines), "mermaid ends a label there"
    rows = [row.split(" | ")[:2] for row in transition_table(direction).splitlines()[2:]]
    assert [(a.removeprefix("| ").replace("(start)", START), b) for a, b in rows] == drawn


def test_the_page_of_the_life_cycle_is_current() -> None:
    page = (ROOT / "docs" / "lifecycle.md").read_text()
    assert all(f"<!-- {name}:begin -->" in page for name in parts())
    assert renewed(page) == page, "stale: run python -m gateway.lifecycle_page docs/lifecycle.md"


def test_the_readme_shows_the_current_diagram() -> None:
    readme = ROOT / "README.md"
    if not readme.exists():  # nothing to be stale
        return
    page = readme.read_text()
    assert "<!-- lifecycle:begin -->" in page, "the README shows the life cycle"
    assert renewed(page) == page, "stale: run python -m gateway.lifecycle_page README.md"


def test_a_stale_page_is_noticed_and_renewed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- lifecycle:begin -->\nstale words\n<!-- lifecycle:end -->\nafter\n")
    assert main(["--check", str(page)]) == 1
    assert main([str(page)]) == 0
    assert main(["--check", str(page)]) == 0
    assert "stale words" not in page.read_text()
    assert page.read_text().startswith("before\n")
    assert page.read_text().endswith("\nafter\n")
    assert "stale" in capsys.readouterr().out


@pytest.mark.parametrize(
    "page",
    [
        "nothing here",
        "<!-- lifecycle:begin -->",
        "<!-- lifecycle:end --><!-- lifecycle:begin -->",
        "<!-- lifecycle:begin --><!-- lifecycle:end --><!-- lifecycle:end -->",
    ],
)
def test_a_page_without_a_proper_place_is_refused(page: str) -> None:
    with pytest.raises(ValueError, match="page"):
        renewed(page)


def reachable(source: Status | None, direction: Direction) -> set[Status]:
    found: set[Status] = set()
    edge = set(successors(source, direction))
    while edge:
        found |= edge
        edge = {target for status in edge for target in successors(status, direction)} - found
    return found
