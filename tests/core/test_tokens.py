from pathlib import Path

import pytest

from practicum.core.errors import ConfigError
from practicum.core.tokens import bears, read_token

TOKEN = "a-token-of-many-characters"


def test_only_the_very_token_is_accepted() -> None:
    assert bears(f"Bearer {TOKEN}", TOKEN)
    for wrong in (
        None,
        "",
        TOKEN,
        f"bearer {TOKEN}",
        f"Bearer {TOKEN} ",
        "Bearer \udcff",
        "Bearer é",
    ):
        assert not bears(wrong, TOKEN)


def test_a_token_comes_from_a_variable_or_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_TOKEN", TOKEN)
    (tmp_path / "token").write_text(TOKEN + "\n")
    assert read_token(env="A_TOKEN") == read_token(file=tmp_path / "token") == TOKEN
    with pytest.raises(ConfigError, match="name one of them"):
        read_token(env="A_TOKEN", file=tmp_path / "token")
    with pytest.raises(ConfigError, match="cannot read the token file"):
        read_token(file=tmp_path / "none")


@pytest.mark.parametrize("bad", ["", "short", "with a space in the middle", "ünïcödé-tøken-löng"])
def test_a_bad_token_is_refused_and_not_repeated(bad: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_TOKEN", bad)
    with pytest.raises(ConfigError) as caught:
        read_token(env="A_TOKEN")
    assert "A_TOKEN" in str(caught.value)
    assert not bad or bad not in str(caught.value)
