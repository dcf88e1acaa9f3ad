"""Invented names. Every name is given once, also after an answer check has normalised it.

Names share their parts on purpose: many people have the same surname, many titles the same
words, some towns are called after others. A search by half a name finds the wrong passage.
"""

from __future__ import annotations

from collections.abc import Callable

from practicum.envs.text.searchqa.lands.draws import number, pick
from practicum.envs.text.searchqa.scoring import normalise

_ONSETS = "B Br D Dr F G Gr H J K Kl L M N P Pr R S Sk St T Tr V W Y Z".split()
_VOWELS = "a e i o u ae ei ia ou".split()
_MIDDLES = "l r n v d lv rd nd st m k th lm rv sk".split()
_ENDS = "an en or el is um eth ak ix olt und arn esk ovi ane ell".split()
_PLACE_ENDS = "amere ohaven aford ewick estad owell agate ebury ofell enholm".split()
_GIVEN_SHE = (
    "Maren Ilsabet Tovina Brenna Selka Orlis Nerida Katla Elinor Runa Dagna Livia Senka Mirel "
    "Astrel Velda Thoria Ysolt Eddana Corisa Petra Wilma Janneke Odila Hestia Fenja Ravna Sigrun"
).split()
_GIVEN_HE = (
    "Anders Bertil Corvin Dorian Egil Fabren Gunnar Halvor Ivo Joren Kasper Leif Magnus Nils Osric "
    "Pavel Quill Rurik Stellan Torvald Ulric Viggo Wendel Yorick Zoltan Emeric Tobin Lorcan"
).split()
_ADJECTIVES = (
    "Silent Amber Hollow Crooked Distant Burning Forgotten Gilded Winter Narrow Pale Restless "
    "Scarlet Sunken Tangled Velvet Wandering Broken Copper Drowned Empty Frozen Glass Hidden "
    "Iron Lonely Midnight Northern Paper Quiet Salt Seventh Thirsty Unwritten Weeping Wooden"
).split()
_NOUNS = (
    "Harbour Orchard Lantern Staircase Meadow Letter Clockmaker Bridge Garden Island Ferryman "
    "Window Compass Cathedral Sparrow Furnace Mirror Archive Valley Carpenter Tide Masquerade "
    "Orphan Lighthouse Voyage Almanac Threshold Beekeeper Granary Parade Witness Quarry Alphabet"
).split()
_PRODUCT_FIRSTS = (
    "smoked blue bitter woven pressed black mountain river candied salted carved spiced wild "
    "painted red dried"
).split()
_PRODUCT_SECONDS = (
    "eel plums cheese linen barley honey pottery oysters tea walnuts slate figs mustard cider "
    "felt beans salt marble"
).split()


class NameBook:
    """Hands out names and remembers them."""

    def __init__(self) -> None:
        self._given: set[str] = set()
        self._towns: list[str] = []
        self._surnames = [self.coined("surname", i) for i in range(240)]

    def person(self, gender: str, *purpose: str | int) -> str:
        """A given name and a surname that others bear too."""
        firsts = _GIVEN_SHE if gender == "she" else _GIVEN_HE

        def make(attempt: int) -> str:
            first = pick(firsts, "given", *purpose, attempt)
            return f"{first} {pick(self._surnames, 'surname', *purpose, attempt)}"

        return self._new(make)

    def place(self, *purpose: str | int) -> str:
        """A town or province; one in eight is called after another one."""

        def make(attempt: int) -> str:
            if self._towns and number(1, 8, "namesake", *purpose) == 1:
                direction = pick(("North", "Upper", "New", "Old"), "direction", *purpose, attempt)
                return f"{direction} {pick(self._towns, 'namesake of', *purpose, attempt)}"
            return self._stem(*purpose, attempt) + pick(_PLACE_ENDS, "end", *purpose, attempt)

        name = self._new(make)
        if " " not in name:
            self._towns.append(name)
        return name

    def land(self, *purpose: str | int) -> str:
        """A country."""
        return self._new(lambda attempt: self._stem(*purpose, attempt) + "ia")

    def coined(self, *purpose: str | int) -> str:
        """A word of its own, such as a currency."""
        return self._new(lambda attempt: self._word(*purpose, attempt))

    def called(self, nouns: str, *purpose: str | int) -> str:
        """A coined word before one of some nouns, as in `Orvane Press`."""

        def make(attempt: int) -> str:
            noun = pick(nouns.split("|"), "noun", *purpose, attempt)
            return f"{self._word('called', number(1, 420, *purpose, attempt))} {noun}"

        return self._new(make)

    def title(self, *purpose: str | int) -> str:
        """The title of a book, film or painting."""

        def make(attempt: int) -> str:
            adjective = pick(_ADJECTIVES, "adjective", *purpose, attempt)
            noun = pick(_NOUNS, "title noun", *purpose, attempt)
            other = pick(_NOUNS, "other noun", *purpose, attempt)
            forms = (f"The {adjective} {noun}", f"{noun} of the {adjective} {other}")
            return pick(forms, "title form", *purpose, attempt)

        return self._new(make)

    def product(self, *purpose: str | int) -> str:
        """What a province makes; not unique."""
        first = pick(_PRODUCT_FIRSTS, "product", *purpose)
        return f"{first} {pick(_PRODUCT_SECONDS, 'second', *purpose)}"

    def _new(self, make: Callable[[int], str]) -> str:
        attempt = 0
        while normalise(name := make(attempt)) in self._given:
            attempt += 1
        self._given.add(normalise(name))
        return name

    def _word(self, *purpose: str | int) -> str:
        return self._stem(*purpose) + pick(_ENDS, "word end", *purpose)

    def _stem(self, *purpose: str | int) -> str:
        parts = (_ONSETS, _VOWELS, _MIDDLES)
        return "".join(pick(part, "stem", i, *purpose) for i, part in enumerate(parts))
