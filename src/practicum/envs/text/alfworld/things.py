"""What stands in a house and what lies in it: kinds of receptacles and objects.

The kinds are ALFRED's, in ALFWorld's spelling. For every object kind the table says where
it may be put, the likeliest place first: scenes are filled and the expert searches in that
order, and a `move` to any other place is impossible.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

OPENABLE = frozenset({"cabinet", "drawer", "fridge", "microwave", "safe"})

TABLES = ("countertop", "diningtable", "coffeetable", "sidetable")
"""What `table` stands for below."""

_PLACES = """\
alarmclock: desk table shelf dresser
apple: fridge table sinkbasin garbagecan microwave
baseballbat: bed table
basketball: bed sofa armchair table desk dresser ottoman
book: bed desk shelf table drawer sofa armchair dresser cabinet ottoman
bowl: cabinet table fridge shelf desk dresser sinkbasin microwave
box: sofa table shelf armchair desk dresser ottoman cabinet
bread: table fridge microwave garbagecan
butterknife: drawer table sinkbasin
candle: toilet table shelf cabinet cart drawer desk dresser
cd: desk drawer shelf table safe dresser garbagecan cabinet
cellphone: bed desk table drawer sofa dresser shelf armchair safe ottoman
cloth: cabinet table drawer sinkbasin bathtubbasin laundryhamper cart shelf toilet dresser desk \
garbagecan sofa armchair ottoman
creditcard: desk table drawer sofa dresser shelf armchair safe ottoman
cup: cabinet table fridge shelf sinkbasin microwave desk dresser
dishsponge: sinkbasin table drawer cabinet cart shelf bathtubbasin toilet garbagecan
egg: fridge table sinkbasin microwave garbagecan
fork: drawer table sinkbasin
glassbottle: table cabinet shelf fridge dresser desk sinkbasin microwave
handtowel: handtowelholder table sinkbasin cabinet shelf cart drawer toilet bathtubbasin garbagecan
kettle: stoveburner table cabinet shelf sinkbasin
keychain: table drawer desk dresser sofa shelf safe armchair ottoman
knife: drawer table sinkbasin
ladle: drawer table cabinet sinkbasin
laptop: desk bed table sofa armchair dresser ottoman
lettuce: fridge table sinkbasin garbagecan
mug: cabinet table coffeemachine desk shelf fridge sinkbasin dresser microwave cart
newspaper: sofa table drawer desk armchair shelf bed dresser garbagecan cabinet toilet ottoman
pan: stoveburner table cabinet fridge sinkbasin
pen: desk drawer table shelf dresser garbagecan
pencil: desk drawer table shelf dresser garbagecan
peppershaker: table cabinet drawer shelf
pillow: bed sofa armchair ottoman
plate: cabinet table shelf fridge sinkbasin microwave desk dresser
plunger: cabinet cart
pot: stoveburner table cabinet fridge shelf sinkbasin
potato: fridge table sinkbasin microwave garbagecan
remotecontrol: sofa table armchair drawer dresser shelf desk ottoman
saltshaker: table cabinet drawer shelf
soapbar: sinkbasin bathtubbasin table cabinet toilet cart drawer shelf garbagecan
soapbottle: table cabinet toilet drawer cart shelf garbagecan desk
spatula: drawer table sinkbasin
spoon: drawer table sinkbasin
spraybottle: cabinet toilet table drawer shelf cart garbagecan dresser desk
statue: shelf table dresser safe desk cart
tennisracket: bed table dresser desk
tissuebox: table toilet dresser drawer shelf desk tvstand cabinet cart garbagecan
toiletpaper: toiletpaperhanger toilet cabinet drawer table shelf cart garbagecan desk dresser
tomato: fridge table sinkbasin microwave garbagecan
towel: towelholder
vase: shelf table dresser cabinet safe desk cart
watch: table drawer dresser desk shelf safe
wateringcan: table cabinet drawer shelf desk dresser
winebottle: fridge table cabinet shelf dresser garbagecan desk
desklamp: desk sidetable dresser shelf
floorlamp: sidetable coffeetable tvstand dresser"""

CLEANABLE = frozenset(
    "apple bowl butterknife cloth cup dishsponge egg fork kettle knife ladle lettuce mug pan plate "
    "pot potato soapbar spatula spoon tomato".split()
)
HEATABLE = frozenset("apple bread cup egg mug plate potato tomato".split())
COOLABLE = frozenset(
    "apple bowl bread cup egg lettuce mug pan plate pot potato tomato winebottle".split()
)
SLICEABLE = frozenset("apple bread egg lettuce potato tomato".split())
KNIVES = frozenset({"butterknife", "knife"})
VESSELS = frozenset("bowl box cup mug pan plate pot".split())
"""Examined for what is in them, which is always nothing, and not for their state."""
LAMPS = frozenset({"desklamp", "floorlamp"})
"""Cannot be picked up; can be switched on."""

APPLIANCES: Mapping[str, tuple[str, frozenset[str]]] = {
    "clean": ("sinkbasin", CLEANABLE),
    "heat": ("microwave", HEATABLE),
    "cool": ("fridge", COOLABLE),
}
"""Verb -> the receptacle it takes and the objects it works on."""


def _expand(places: str) -> tuple[str, ...]:
    return tuple(
        kind for word in places.split() for kind in (TABLES if word == "table" else (word,))
    )


PLACES: Mapping[str, tuple[str, ...]] = {
    name: _expand(places)
    for name, _, places in (line.partition(":") for line in _PLACES.splitlines())
}
"""Object kind -> receptacle kinds that take it, likeliest first."""


def kind(name: str) -> str:
    """The kind of a thing: `cabinet` for `cabinet 2`."""
    return name.partition(" ")[0]


@lru_cache(maxsize=4096)
def shown_order(name: str) -> tuple[str, int]:
    """Sort key of every list the world shows: kinds from a to z, high numbers first."""
    word, _, number = name.partition(" ")
    return word, -int(number)
