"""Words that names in the generated databases are made of."""

from __future__ import annotations

from practicum.envs.text.sqlgym.domains.fill import Fill, words

FIRST_NAMES = tuple(
    "Ada Alan Amara Anders Aisha Beatriz Boris Carla Chen Clara Daniel Deepa Diego Edith Elena "
    "Emeka Farid Fiona Gita Goran Hana Hugo Ines Ivan Jana Jonas Kaito Karin Lars Leila Lin "
    "Luca Maja Malik Marta Mina Nadia Noah Olga Omar Paula Pedro Priya Quinn Rosa Rui Sami "
    "Sara Sven Tara Tomas Uma Vera Viktor Wanda Xenia Yara Yusuf Zoe Zoran".split()
)
LAST_NAMES = tuple(
    "Abbott Adeyemi Almeida Bakker Baran Berg Castro Cohen Costa Dahl Diaz Dubois Ekman Evans "
    "Fischer Flores Gallo Garcia Hansen Haddad Horvat Ito Ivanova Jansen Kaur Keller Khan "
    "Kowalski Larsen Lopez Mbeki Meyer Moreau Nakata Nguyen Novak Okafor Olsen Park Patel "
    "Pereira Quist Rossi Ruiz Sato Schmidt Silva Singh Sorensen Tanaka Toth Urban Varga Vega "
    "Weber Wong Yilmaz Zhang Zeman Zuniga".split()
)
COUNTRIES = ("Norway", "Brazil", "India", "Kenya", "Japan", "Spain", "Canada", "Poland", "Chile")
CITIES = (
    "Oslo", "Lisbon", "Nairobi", "Kyoto", "Toronto", "Valencia", "Gdansk", "Recife", "Pune",
    "Dublin", "Turin", "Malmo", "Quito", "Leeds", "Tampere", "Ghent", "Porto", "Basel", "Split",
    "Cork",
)  # fmt: skip
ADJECTIVES = (
    "Silent", "Golden", "Broken", "Distant", "Hidden", "Crimson", "Endless", "Gentle", "Hollow",
    "Bright", "Frozen", "Restless", "Secret", "Wandering", "Electric", "Velvet", "Paper", "Lonely",
)  # fmt: skip
NOUNS = (
    "River", "Garden", "Winter", "Harbour", "Mountain", "Mirror", "Lantern", "Orchard", "Signal",
    "Shadow", "Ocean", "Empire", "Island", "Letter", "Tower", "Bridge", "Compass", "Station",
)  # fmt: skip


def people() -> Fill:
    """Full names."""
    return words(FIRST_NAMES, LAST_NAMES)


def cities() -> Fill:
    """City names."""
    return words(CITIES)


def titles(*openings: str) -> Fill:
    """Titles of works, as in "The Silent River"."""
    return words(openings or ("The", "A", "Our", "My"), ADJECTIVES, NOUNS)
