"""The pages say what the code says."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from gateway.config import parse
from tests import settings_page
from tests.refusal_page import page, renewed

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_the_page_of_refusals_is_current() -> None:
    stale = "run: python -m tests.refusal_page docs/refusals.md README.md"
    assert (ROOT / "docs" / "refusals.md").read_text() == page(), stale
    readme = (ROOT / "README.md").read_text()
    assert renewed(readme) == readme, stale


@pytest.mark.parametrize("name", ["README.md", "docs/configuration.md"])
def test_every_configuration_shown_is_one_that_the_gateway_takes(name: str) -> None:
    from adapters import registry

    shown = re.findall(r"```toml\n(.*?)```", (ROOT / name).read_text(), re.DOTALL)
    assert shown
    for text in shown:
        config = parse(tomllib.loads(text), base=ROOT)
        for chain in config.chain:
            assert registry.create(chain.family, chain.name, chain.settings).info.name == chain.name


@pytest.mark.parametrize("path", PAGES, ids=lambda p: p.name)
def test_every_file_and_test_that_a_page_names_exists(path: Path) -> None:
    text = path.read_text()
    for named in re.findall(r"`((?:gateway|adapters|db|devnets|tests|docs)/[\w./-]+)`", text):
        assert (ROOT / named).exists(), f"{path.name} names {named}"
    everything = "\n".join(p.read_text() for p in (ROOT / "tests").rglob("test_*.py"))
    for test in re.findall(r"`(test_\w+)`", text):
        assert f"def {test}(" in everything, f"{path.name} names {test}"


def test_the_page_of_settings_is_current() -> None:
    stale = "run: python -m tests.settings_page docs/configuration.md"
    assert (ROOT / "docs" / "configuration.md").read_text() == settings_page.page(), stale


def test_every_setting_is_explained() -> None:
    unexplained = [
        f"{model.__module__}.{name}"
        for _, model in settings_page.SECTIONS
        for name, field in model.model_fields.items()
        if not field.description
    ]
    assert unexplained == []
