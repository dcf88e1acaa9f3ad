"""How the lands are put into words: relations, the sentences that state them, questions.

Everything here is data. A relation leads from a thing of one kind to one value; `asks` are
questions for it and `refers` are noun phrases, so questions nest to any depth: "Where was
{x} born?" around "the author of {x}". Sentences name relations as slots. Each wording
belongs to exactly one relation, so a reader can tell from the words what is asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

YEAR = "year"
WORD = "word"


@dataclass(frozen=True, slots=True)
class Relation:
    """A fact that things of a kind have: whose, of what kind, and how to ask for it."""

    key: str
    """`kind.slot`."""
    value: str
    """The kind of the value: a kind of thing, `YEAR` or `WORD`."""
    asks: tuple[str, ...]
    refers: tuple[str, ...] = ()
    inverse_of: str = ""
    """The relation it reads backwards; passages state only that one."""
    queries: tuple[str, ...] = ("{x}",)
    """Searches for a passage that states it."""

    @property
    def kind(self) -> str:
        """The kind of thing it is a fact about."""
        return self.key.split(".")[0]

    @property
    def slot(self) -> str:
        """Its name in sentences."""
        return self.key.split(".")[1]


_RELATIONS = (
    Relation(
        "land.capital",
        "city",
        ("What is the capital of {x}?", "Which city is the capital of {x}?"),
        ("the capital of {x}",),
    ),
    Relation(
        "land.currency",
        WORD,
        ("What is the currency of {x}?", "With which currency do people pay in {x}?"),
    ),
    Relation(
        "province.land",
        "land",
        ("To which country does {x} belong?", "Which country is {x} a part of?"),
        ("the country to which {x} belongs",),
    ),
    Relation(
        "province.governor",
        "person",
        ("Who governs {x}?", "Who is the governor of {x}?"),
        ("the governor of {x}", "the politician who governs {x}"),
    ),
    Relation(
        "province.seat",
        "city",
        ("From which city is {x} governed?", "Which city is the administrative seat of {x}?"),
        ("the administrative seat of {x}",),
    ),
    Relation(
        "province.product",
        WORD,
        ("Which product is {x} best known for?", "What does {x} chiefly export?"),
    ),
    Relation(
        "city.province",
        "province",
        ("In which province does {x} lie?", "Which province contains {x}?"),
        ("the province in which {x} lies", "the province that contains {x}"),
    ),
    Relation(
        "city.river",
        "river",
        ("Which river runs through {x}?", "On which river does {x} lie?"),
        ("the river that runs through {x}",),
    ),
    Relation(
        "city.chartered",
        YEAR,
        ("In which year did {x} receive its charter?", "When was {x} granted a charter?"),
    ),
    Relation(
        "river.source",
        WORD,
        ("On which mountain does {x} rise?", "Where is the source of {x}?"),
    ),
    Relation(
        "river.mouth",
        WORD,
        ("Into which water does {x} flow?", "Where does {x} end?"),
    ),
    Relation(
        "person.birthplace",
        "city",
        ("Where was {x} born?", "What is the birthplace of {x}?"),
        ("the birthplace of {x}", "the city where {x} was born"),
    ),
    Relation(
        "person.birth_year",
        YEAR,
        ("In which year was {x} born?", "What is the birth year of {x}?"),
    ),
    Relation(
        "person.school",
        "school",
        ("Where did {x} study?", "Which school did {x} attend?"),
        ("the school that {x} attended", "the place where {x} studied"),
    ),
    Relation(
        "person.teacher",
        "person",
        ("Who taught {x}?", "Whose pupil was {x}?"),
        ("the teacher of {x}", "the person who taught {x}"),
    ),
    Relation(
        "person.spouse",
        "person",
        ("Who was married to {x}?", "Who was the spouse of {x}?"),
        ("the spouse of {x}", "the person married to {x}"),
    ),
    Relation(
        "school.city",
        "city",
        ("In which city does {x} teach its students?", "Which city hosts the campus of {x}?"),
        ("the city that hosts the campus of {x}",),
    ),
    Relation(
        "school.founded",
        YEAR,
        ("In which year did {x} open its doors to students?", "Since when has {x} taught?"),
    ),
    Relation(
        "school.rector",
        "person",
        ("Who is the rector of {x}?", "Which scholar heads {x}?"),
        ("the rector of {x}", "the scholar who heads {x}"),
    ),
    Relation(
        "company.headquarters",
        "city",
        ("Where does {x} have its headquarters?", "In which city is the head office of {x}?"),
        ("the city where {x} has its headquarters",),
    ),
    Relation(
        "company.founder",
        "person",
        ("Who founded {x}?", "Who was the founder of {x}?"),
        ("the founder of {x}", "the person who founded {x}"),
    ),
    Relation(
        "company.established",
        YEAR,
        ("In which year was {x} established?", "When did {x} go into business?"),
    ),
    Relation(
        "book.author",
        "person",
        ("Who wrote {x}?", "Who is the author of {x}?"),
        ("the author of {x}", "the novelist who wrote {x}"),
    ),
    Relation(
        "book.publisher",
        "company",
        ("Who published {x}?", "Which company brought out {x}?"),
        ("the publisher of {x}", "the company that brought out {x}"),
    ),
    Relation(
        "book.published",
        YEAR,
        ("In which year was {x} published?", "When did {x} first appear in print?"),
    ),
    Relation(
        "book.hero",
        WORD,
        ("Who is the main character of {x}?", "Around whom does the plot of {x} turn?"),
    ),
    Relation(
        "film.director",
        "person",
        ("Who directed {x}?", "Who was the director of {x}?"),
        ("the director of {x}", "the person who directed {x}"),
    ),
    Relation(
        "film.composer",
        "person",
        ("Who composed the score of {x}?", "Whose music is heard in {x}?"),
        ("the composer of the score of {x}",),
    ),
    Relation(
        "film.studio",
        "company",
        ("Which studio produced {x}?", "Which studio paid for {x}?"),
        ("the studio that produced {x}",),
    ),
    Relation(
        "film.novel",
        "book",
        ("Which novel is {x} based on?", "From which novel was {x} adapted?"),
        ("the novel on which {x} is based",),
    ),
    Relation(
        "film.released",
        YEAR,
        ("In which year was {x} released?", "When did {x} reach the cinemas?"),
    ),
    Relation(
        "building.architect",
        "person",
        ("Who designed {x}?", "Which architect drew the plans of {x}?"),
        ("the architect of {x}", "the person who designed {x}"),
    ),
    Relation(
        "building.city",
        "city",
        ("In which city does {x} stand?", "Where can visitors see {x}?"),
        ("the city in which {x} stands",),
    ),
    Relation(
        "building.opened",
        YEAR,
        ("In which year was {x} inaugurated?", "When was {x} opened to the public?"),
    ),
    Relation(
        "award.school",
        "school",
        ("Which school awards {x}?", "By which school is {x} presented?"),
        ("the school that awards {x}",),
    ),
    Relation(
        "award.laureate",
        "person",
        ("Who was the first to receive {x}?", "Who was the first laureate of {x}?"),
        ("the first laureate of {x}", "the first person to receive {x}"),
    ),
    Relation(
        "award.since",
        YEAR,
        ("In which year was {x} first awarded?", "Since when has {x} been awarded?"),
    ),
    Relation(
        "club.coach",
        "person",
        ("Who coaches {x}?", "Who is the coach of {x}?"),
        ("the coach of {x}",),
    ),
    Relation(
        "club.ground",
        "building",
        ("Where does {x} play its home matches?", "Which arena is the home ground of {x}?"),
        ("the home ground of {x}", "the arena where {x} plays"),
    ),
    Relation(
        "club.formed",
        YEAR,
        ("In which year was {x} formed?", "When did {x} play its first season?"),
    ),
    Relation(
        "painting.painter",
        "person",
        ("Who painted {x}?", "Whose work is {x}?"),
        ("the painter of {x}", "the artist who painted {x}"),
    ),
    Relation(
        "painting.museum",
        "building",
        ("In which museum does {x} hang?", "Which museum owns {x}?"),
        ("the museum in which {x} hangs", "the museum that owns {x}"),
    ),
    Relation(
        "painting.finished",
        YEAR,
        ("In which year was {x} painted?", "When was {x} finished?"),
    ),
    Relation(
        "book.film",
        "film",
        ("Which film is based on {x}?", "What is the film version of {x} called?"),
        ("the film based on {x}", "the film version of {x}"),
        inverse_of="film.novel",
        queries=(
            "film adaptation of the novel {x}",
            "film with a script based on the novel {x}",
            "script based on {x}",
            "directed and released adaptation of {x}",
        ),
    ),
    Relation(
        "person.company",
        "company",
        ("Which company did {x} found?",),
        ("the company founded by {x}",),
        inverse_of="company.founder",
        queries=("company established by {x}", "headquarters of the company {x} founded"),
    ),
    Relation(
        "person.building",
        "building",
        ("Which building did {x} design?",),
        ("the building designed by {x}",),
        inverse_of="building.architect",
        queries=("building designed by {x}", "plans drawn by the architect {x}"),
    ),
    Relation(
        "person.governed",
        "province",
        ("Which province does {x} govern?",),
        ("the province governed by {x}",),
        inverse_of="province.governor",
        queries=("province led by governor {x}", "governor of the province {x}"),
    ),
    Relation(
        "school.award",
        "award",
        ("Which prize does {x} present?",),
        ("the prize presented by {x}",),
        inverse_of="award.school",
        queries=(
            "prize that {x} awards every year",
            "prize presented by {x} and its first laureate",
        ),
    ),
    Relation(
        "building.club",
        "club",
        ("Which club plays at {x}?",),
        ("the club that plays at {x}",),
        inverse_of="club.ground",
        queries=(
            "football club that plays its home matches at {x}",
            "football club whose home ground is {x}",
        ),
    ),
)

RELATIONS: Mapping[str, Relation] = {relation.key: relation for relation in _RELATIONS}


@dataclass(frozen=True, slots=True)
class Comparison:
    """A question about whichever of two things comes first or last."""

    by: str
    """The relation whose years are compared."""
    then: str
    """The relation asked of the one chosen; its value is never part of the question."""
    earlier: tuple[str, ...]
    later: tuple[str, ...]


COMPARISONS = (
    Comparison(
        "book.published",
        "book.author",
        ("Who wrote the book that was published first, {a} or {b}?",),
        ("Who wrote the more recent of the books {a} and {b}?",),
    ),
    Comparison(
        "film.released",
        "film.director",
        ("Who directed the older of the films {a} and {b}?",),
        ("Which director made the film that was released later, {a} or {b}?",),
    ),
    Comparison(
        "person.birth_year",
        "person.birthplace",
        ("Where was the older of {a} and {b} born?",),
        ("Of {a} and {b}, where was the one born who is younger?",),
    ),
    Comparison(
        "school.founded",
        "school.rector",
        ("Who is the rector of the older of the schools {a} and {b}?",),
        ("Which scholar heads the school that was founded later, {a} or {b}?",),
    ),
    Comparison(
        "company.established",
        "company.founder",
        ("Who founded the company that went into business first, {a} or {b}?",),
        ("Who founded the younger of the companies {a} and {b}?",),
    ),
    Comparison(
        "building.opened",
        "building.architect",
        ("Who designed the building that was opened first, {a} or {b}?",),
        ("Who designed the newer of the buildings {a} and {b}?",),
    ),
    Comparison(
        "painting.finished",
        "painting.museum",
        ("Which museum owns the older of the paintings {a} and {b}?",),
        ("In which museum hangs the painting that was finished later, {a} or {b}?",),
    ),
)
