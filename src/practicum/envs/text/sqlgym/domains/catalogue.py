"""All generated databases, and which split each belongs to.

Whole databases are held out, as Spider does it: a question of the test panel is about
tables no training question has ever shown.
"""

from __future__ import annotations

from collections.abc import Mapping

from practicum.core.errors import unknown_name
from practicum.envs.text.sqlgym.domains import culture, services, trade
from practicum.envs.text.sqlgym.domains.model import Domain

SPLITS: Mapping[str, tuple[Domain, ...]] = {
    "train": (
        services.AIRLINE,
        services.HOTEL,
        culture.LEAGUE,
        culture.LIBRARY,
        culture.MUSIC,
        trade.RESTAURANT,
        services.SCHOOL,
        trade.SHOP,
    ),
    "dev": (culture.CINEMA, trade.FARM),
    "test": (trade.BANK, services.HOSPITAL, culture.MUSEUM),
}

_BY_NAME = {domain.name: domain for domains in SPLITS.values() for domain in domains}


def find_domain(name: str) -> Domain:
    """Find a domain by name."""
    if name not in _BY_NAME:
        raise unknown_name("database", name, _BY_NAME)
    return _BY_NAME[name]
