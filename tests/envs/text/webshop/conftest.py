"""WebShop's tests need its packages."""

import pytest
from support import require

from practicum.envs.text.webshop.shops import INSTALL, MODULES


@pytest.fixture(autouse=True)
def _webshop_packages() -> None:
    for module in MODULES:
        require(module, INSTALL)
