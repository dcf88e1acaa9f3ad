import pytest

from practicum.core.errors import ConfigError
from practicum.envs import registry


def test_an_option_the_factory_does_not_take_is_an_error() -> None:
    with pytest.raises(ConfigError, match="unknown option of"):
        registry.load_env("textcraft", difficulty="hard")


def test_a_missing_module_names_the_line_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = registry.Entry(
        "ghost", "ghost:create", "g", ("no_such_module",), ("no-such-program",), "pip install ghost"
    )
    monkeypatch.setattr(registry, "_BUILT_IN", (entry,))
    with pytest.raises(
        ConfigError, match="needs no_such_module, no-such-program, not installed: pip"
    ):
        registry.load_env("ghost")


@pytest.mark.parametrize("path", ["no.such:create", "practicum.core.task:create", "no.py:create"])
def test_a_factory_that_is_not_there_is_an_error(path: str) -> None:
    with pytest.raises(ConfigError, match="cannot load an environment"):
        registry.load_env(path)


def test_packages_can_add_environments(monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib.metadata import EntryPoint

    point = EntryPoint("mine", "practicum.envs.text.textcraft.env:create", "practicum.envs")
    monkeypatch.setattr(registry, "entry_points", lambda group: [point])
    assert registry.load_env("mine").id == "textcraft"
