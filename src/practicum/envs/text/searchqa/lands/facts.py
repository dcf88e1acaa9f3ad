"""The lands: who and what there is, and the facts about them.

Each land stands alone: no fact leads from one land to another, so splitting questions by
land leaves no fact on both sides. Within a land the dates agree: a film is younger than
the novel behind it, a teacher older than the pupil, a publisher older than the book.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from practicum.envs.text.searchqa.lands.draws import number, pick, shuffled
from practicum.envs.text.searchqa.lands.names import NameBook

NUM_LANDS = 40

_TRADES = {
    "novelist": (5, 1870, 1945),
    "film director": (3, 1890, 1950),
    "composer": (2, 1885, 1950),
    "painter": (2, 1850, 1930),
    "architect": (3, 1850, 1930),
    "politician": (4, 1948, 1970),
    "publisher": (2, 1812, 1845),
    "industrialist": (2, 1812, 1848),
    "film producer": (2, 1868, 1880),
    "scholar": (4, 1950, 1968),
    "football coach": (2, 1955, 1980),
}
"""What people do: how many per land, and the years they are born in."""


@dataclass
class Land:
    """One country: things by name, and facts by thing and relation."""

    name: str
    kinds: dict[str, str] = field(default_factory=dict)
    """Name -> kind, in the order the passages come in."""
    facts: dict[tuple[str, str], str] = field(default_factory=dict)
    """(name, relation key) -> value."""
    trades: dict[str, str] = field(default_factory=dict)
    """What kind of person, company or building it is."""
    pronouns: dict[str, str] = field(default_factory=dict)

    def of_kind(self, kind: str, *trades: str) -> list[str]:
        """Names of one kind, and of some trades if any are named."""
        return [
            name
            for name, its_kind in self.kinds.items()
            if its_kind == kind and (not trades or self.trades[name] in trades)
        ]

    def add(self, name: str, kind: str, **facts: str | int) -> None:
        """Add a thing and what is known of it."""
        self.kinds[name] = kind
        for slot, value in facts.items():
            self.facts[name, f"{kind}.{slot}"] = str(value)

    def year(self, name: str, relation: str) -> int:
        """A fact that is a year."""
        return int(self.facts[name, relation])


@lru_cache(maxsize=1)
def load_lands() -> Sequence[Land]:
    """All lands; built once per process and never changed."""
    names = NameBook()
    return tuple(_build_land(names, index) for index in range(NUM_LANDS))


def _build_land(names: NameBook, index: int) -> Land:
    land = Land(names.land("land", index))
    cities = [names.place("city", index, i) for i in range(8)]
    schools = [names.called("College|Academy|Institute", "school", index, i) for i in range(3)]
    _add_people(land, names, cities, schools)
    _add_places(land, names, cities)
    _add_schools(land, names, cities, schools)
    _add_companies(land, names, cities)
    _add_works(land, names)
    _add_buildings(land, names, cities)
    return land


def _add_people(land: Land, names: NameBook, cities: Sequence[str], schools: Sequence[str]) -> None:
    for trade, (count, first, last) in _TRADES.items():
        for i in range(count):
            purpose = ("person", land.name, trade, i)
            gender = pick(("she", "he"), *purpose)
            name = names.person(gender, *purpose)
            land.trades[name] = trade
            land.pronouns[name] = gender
            land.add(
                name,
                "person",
                birthplace=pick(cities, "birthplace", name),
                birth_year=number(first, last, "birth", name),
                school=pick(schools, "school", name),
            )
    people = land.of_kind("person")
    born = {name: land.year(name, "person.birth_year") for name in people}
    for name in people:
        teachers = [other for other in people if 15 <= born[name] - born[other] <= 40]
        if teachers:
            land.facts[name, "person.teacher"] = pick(teachers, "teacher", name)
    single = shuffled(people, "marriage", land.name)
    while single:
        name = single.pop()
        matches = [other for other in single if abs(born[name] - born[other]) <= 8]
        if matches and number(1, 3, "marries", name) > 1:
            single.remove(matches[0])
            land.facts[name, "person.spouse"] = matches[0]
            land.facts[matches[0], "person.spouse"] = name


def _add_places(land: Land, names: NameBook, cities: Sequence[str]) -> None:
    land.add(land.name, "land", currency=names.coined("currency", land.name))
    land.facts[land.name, "land.capital"] = pick(cities, "capital", land.name)
    rivers = [names.coined("river", land.name, i) for i in range(2)]
    governors = land.of_kind("person", "politician")
    for i, governor in enumerate(governors):
        province = names.place("province", land.name, i)
        own_cities = cities[2 * i : 2 * i + 2]
        land.add(
            province,
            "province",
            land=land.name,
            seat=pick(own_cities, "seat", province),
            governor=governor,
            product=names.product("product", province),
        )
        for city in own_cities:
            land.add(
                city,
                "city",
                province=province,
                river=pick(rivers, "river of", city),
                chartered=number(1120, 1540, "charter", city),
            )
    for river in rivers:
        land.add(
            river,
            "river",
            source="Mount " + names.coined("mountain", river),
            mouth=names.called("Sea|Bay|Lake|Sound", "water", river),
        )


def _add_schools(
    land: Land, names: NameBook, cities: Sequence[str], schools: Sequence[str]
) -> None:
    rectors = land.of_kind("person", "scholar")
    for school, rector in zip(schools, rectors, strict=False):
        land.add(
            school,
            "school",
            city=pick(cities, "campus", school),
            founded=number(1560, 1800, "school founded", school),
            rector=rector,
        )
    winners = land.of_kind("person", "novelist", "composer", "painter", "architect")
    for i, school in enumerate(schools):
        award = names.called("Prize|Medal|Award", "award", land.name, i)
        laureate = pick(winners, "laureate", award)
        birth = land.year(laureate, "person.birth_year")
        land.add(
            award,
            "award",
            school=school,
            laureate=laureate,
            since=number(birth + 32, birth + 50, "award since", award),
        )


def _add_companies(land: Land, names: NameBook, cities: Sequence[str]) -> None:
    businesses = {
        "publisher": ("Press|Books|Editions", "publishing house"),
        "industrialist": ("Works|Mills|Foundry|Instruments", "manufacturer"),
        "film producer": ("Pictures|Studios", "film studio"),
    }
    for trade, (nouns, business) in businesses.items():
        for founder in land.of_kind("person", trade):
            company = names.called(nouns, "company", founder)
            birth = land.year(founder, "person.birth_year")
            land.trades[company] = business
            land.add(
                company,
                "company",
                headquarters=pick(cities, "headquarters", company),
                founder=founder,
                established=number(birth + 26, birth + 38, "established", company),
            )


def _add_works(land: Land, names: NameBook) -> None:
    publishers = land.of_kind("company", "publishing house")
    for i in range(9):
        name = names.title("book", land.name, i)
        author = pick(land.of_kind("person", "novelist"), "author", name)
        birth = land.year(author, "person.birth_year")
        land.add(
            name,
            "book",
            author=author,
            publisher=pick(publishers, "publishes", name),
            published=number(birth + 24, birth + 55, "published", name),
            hero=names.person(pick(("she", "he"), "hero", name), "hero", name),
        )
    unfilmed = land.of_kind("book")
    for i in range(6):
        name = names.title("film", land.name, i)
        director = pick(land.of_kind("person", "film director"), "director", name)
        birth = land.year(director, "person.birth_year")
        released = number(max(birth + 25, 1920), birth + 52, "released", name)
        land.add(
            name,
            "film",
            director=director,
            composer=pick(land.of_kind("person", "composer"), "score", name),
            studio=pick(land.of_kind("company", "film studio"), "studio", name),
            released=released,
        )
        novels = [book for book in unfilmed if land.year(book, "book.published") < released]
        if novels:
            novel = pick(novels, "novel of", name)
            land.facts[name, "film.novel"] = novel
            unfilmed.remove(novel)


def _add_buildings(land: Land, names: NameBook, cities: Sequence[str]) -> None:
    sorts = (
        ("museum", "Museum|Gallery"),
        ("museum", "Museum|Gallery"),
        ("sports arena", "Arena|Park|Stadium"),
        ("sports arena", "Arena|Park|Stadium"),
        ("concert hall", "Hall|Rooms"),
        ("tower", "Tower|Spire"),
    )
    architects = land.of_kind("person", "architect")
    for i, (trade, nouns) in enumerate(sorts):
        name = names.called(nouns, "building", land.name, i)
        architect = architects[i % 2] if i else architects[2]
        birth = land.year(architect, "person.birth_year")
        land.trades[name] = trade
        land.add(
            name,
            "building",
            city=pick(cities, "stands in", name),
            architect=architect,
            opened=number(birth + 28, birth + 60, "opened", name),
        )
    coaches = land.of_kind("person", "football coach")
    for ground, coach in zip(land.of_kind("building", "sports arena"), coaches, strict=True):
        club = names.called("Rovers|Athletic|United|Wanderers", "club of", ground)
        opened = land.year(ground, "building.opened")
        land.add(club, "club", ground=ground, coach=coach, formed=opened - number(0, 30, club))
    museums = land.of_kind("building", "museum")
    for i in range(4):
        name = names.title("painting", land.name, i)
        painter = pick(land.of_kind("person", "painter"), "painter", name)
        birth = land.year(painter, "person.birth_year")
        land.add(
            name,
            "painting",
            painter=painter,
            museum=pick(museums, "hangs in", name),
            finished=number(birth + 20, birth + 60, "finished", name),
        )
