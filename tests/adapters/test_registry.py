"""The registry: families by name, imported only when one is used."""

from __future__ import annotations

import subprocess
import sys

import pytest

from adapters import registry
from gateway.core.errors import ConfigError


def test_an_unknown_family_is_a_configuration_error() -> None:
    with pytest.raises(ConfigError, match=r"chain x: unknown family 'dogma'; there are: evm, bitcoin"):
        registry.create("dogma", "x", {})


def test_the_registry_alone_imports_no_chain() -> None:
    code = "import sys, adapters.registry; print([m for m in sys.modules if m.startswith('adapters.')])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "['adapters.registry']"


@pytest.mark.parametrize("family", registry.families())
def test_each_family_lists_all_problems_of_its_settings(family: str) -> None:
    with pytest.raises(ConfigError) as caught:
        registry.create(family, "x", {"nonsense": 1, "urls": "http://u:s3cret@h/"})
    assert len(caught.value.problems) > 1
    assert all(problem.startswith("chain x: ") for problem in caught.value.problems)
    assert "s3cret" not in str(caught.value)
