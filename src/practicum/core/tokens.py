"""Tokens: read from where secrets are kept, compared so that a wrong one learns nothing."""

from __future__ import annotations

import hmac
import os
from pathlib import Path

from practicum.core.errors import ConfigError

MIN_CHARACTERS = 16
"""Shorter ones can be guessed."""


def bears(authorization: str | None, token: str) -> bool:
    """Whether an `Authorization` header carries this token; takes equally long if it does not."""
    given = (authorization or "").encode("utf-8", "surrogateescape")
    return hmac.compare_digest(given, f"Bearer {token}".encode())


def bearer(token: str | None) -> dict[str, str]:
    """The header that carries a token, if there is one."""
    if token is None or token == "":
        return {}
    if not (token.isascii() and token.isprintable()):
        raise ConfigError("the token holds characters that a header cannot")
    return {"Authorization": f"Bearer {token}"}


def read_token(*, env: str | None = None, file: Path | None = None) -> str:
    """Read a token from an environment variable or a file; says which, never what."""
    if (env is None) == (file is None):
        raise ConfigError("a token comes from a variable (env) or a file (file): name one of them")
    if env is not None:
        token, where = os.environ.get(env, ""), f"the variable {env}"
    else:
        assert file is not None
        try:
            token, where = file.read_text(encoding="utf-8"), f"the file {file}"
        except OSError as error:
            raise ConfigError(f"cannot read the token file {file}: {error.strerror}") from error
    return check_token(token.strip(), where)


def check_token(token: str, where: str) -> str:
    """Return a token that a header can carry and nobody guesses, or raise `ConfigError`."""
    if len(token) < MIN_CHARACTERS:
        raise ConfigError(
            f"{where} holds no token of at least {MIN_CHARACTERS} characters; make one with "
            "`python -c 'import secrets; print(secrets.token_urlsafe(32))'`"
        )
    if not (token.isascii() and token.isprintable()) or " " in token:
        raise ConfigError(f"the token in {where} holds characters that a header cannot")
    return token
