"""The error tree: the docstring that people read and the classes agree."""

import inspect
import re

import pytest

from gateway.core import errors


def documented() -> dict[str, str]:
    """Return each class of the docstring's tree with its parent."""
    assert errors.__doc__ is not None
    parents: dict[str, str] = {}
    branch: list[str] = []
    for row in errors.__doc__.splitlines():
        found = re.match(r"(?P<lead>(?:[│├└─]|\s)*)(?P<name>[A-Z]\w+)", row)
        if found is None or (not found["lead"] and found["name"] != "GatewayError"):
            continue
        depth = len(found["lead"]) // 4
        branch[depth:] = [found["name"]]
        if depth:
            parents[found["name"]] = branch[depth - 1]
    return parents


def in_code() -> dict[str, str]:
    classes = [c for _, c in inspect.getmembers(errors, inspect.isclass) if issubclass(c, errors.GatewayError)]
    return {c.__name__: c.__mro__[1].__name__ for c in classes if c is not errors.GatewayError}


def test_the_tree_in_the_docstring_is_the_tree_of_classes() -> None:
    assert len(documented()) > 10
    assert documented() == in_code()


@pytest.mark.parametrize("name", sorted(in_code()))
def test_every_error_says_what_it_is_for(name: str) -> None:
    assert getattr(errors, name).__doc__


def test_a_configuration_error_tells_every_problem_at_once() -> None:
    error = errors.ConfigError(["no password", "no chain"])
    assert error.problems == ("no password", "no chain")
    assert str(error) == "no password; no chain"


def test_a_chain_error_names_the_chain_and_the_call() -> None:
    error = errors.Refused("fee", chain="eth", call="send", outcome=errors.Outcome.FEE_TOO_LOW, node="a")
    assert str(error) == "eth: send: fee"
    assert (error.chain, error.call, error.message, error.node) == ("eth", "send", "fee", "a")
    assert error.outcome is errors.Outcome.FEE_TOO_LOW


def test_a_bad_request_names_the_field() -> None:
    assert errors.BadRequest("no", field="amount").field == "amount"
