"""The sentences of the passages, by kind of thing.

Each group is one sentence in several wordings. A slot is a relation of the kind; `{name}`
is the title of the passage, `{They}` and `{they}` a pronoun, `{trade}` and `{a_trade}` what
it is. A sentence is left out where a fact is missing. The first group opens the passage; details
follow in any order, with one remark that states nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

SENTENCES: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "land": (
        (
            "{name} is a country whose capital is {capital}.",
            "The country of {name} has its capital at {capital}.",
        ),
        (
            "Its currency is the {currency}.",
            "In the shops of {name} people pay with the {currency}.",
        ),
    ),
    "province": (
        (
            "{name} is a province of {land}, governed from the city of {seat}.",
            "The province of {name} belongs to {land} and has its administrative seat in {seat}.",
        ),
        (
            "The governor of {name} is {governor}.",
            "Since the last election {name} has been led by governor {governor}.",
        ),
        (
            "{name} is best known for its {product}.",
            "The chief export of {name} is {product}.",
        ),
    ),
    "city": (
        (
            "{name} is a city in the province of {province}.",
            "The city of {name} lies in {province}.",
        ),
        (
            "The river {river} runs through the old town of {name}.",
            "{name} was built on the banks of the {river}.",
        ),
        (
            "{name} received its charter in {chartered}.",
            "A royal charter was granted to {name} in {chartered}.",
        ),
    ),
    "river": (
        (
            "The {name} is a river that rises on {source} and flows into {mouth}.",
            "From its source on {source}, the river {name} runs down to {mouth}.",
        ),
    ),
    "person": (
        (
            "{name} was {a_trade}, born in {birthplace} in {birth_year}.",
            "{name} (born {birth_year} in {birthplace}) made a living as {a_trade}.",
            "Born in {birthplace} in {birth_year}, {name} became known as {a_trade}.",
        ),
        (
            "{They} studied at {school}.",
            "{name} was educated at {school}.",
            "{They} spent four years as a student of {school}.",
        ),
        (
            "For some time {they} took lessons from {teacher}.",
            "{name} was a pupil of {teacher}.",
        ),
        (
            "{They} was married to {spouse}.",
            "{name} shared a house and a life with {spouse}, to whom {they} was married.",
        ),
    ),
    "school": (
        (
            "{name} is a school of higher learning with a campus in {city}.",
            "Students of {name} attend their courses in {city}.",
        ),
        (
            "{name} was founded in {founded}.",
            "The first students of {name} were admitted in {founded}.",
        ),
        (
            "The rector of {name} is {rector}.",
            "{rector} heads {name} as its rector.",
        ),
    ),
    "company": (
        (
            "{name} is {a_trade} with its headquarters in {headquarters}.",
            "The head office of {name}, {a_trade}, is in {headquarters}.",
        ),
        (
            "{name} was established by {founder} in {established}.",
            "{founder} founded {name} in {established}.",
        ),
    ),
    "book": (
        (
            "{name} is a novel by {author}, first published in {published}.",
            "The novel {name} by {author} appeared in {published}.",
        ),
        (
            "{name} was brought out by {publisher}.",
            "The publisher of {name} was {publisher}.",
        ),
        (
            "The story follows {hero}.",
            "The main character of {name} is called {hero}.",
        ),
    ),
    "film": (
        (
            "{name} is a film directed by {director} and released in {released}.",
            "The film {name}, which {director} directed, reached the cinemas in {released}.",
        ),
        (
            "The script of {name} is based on the novel {novel}.",
            "{name} is an adaptation of the novel {novel}.",
        ),
        (
            "{name} was produced by {studio}.",
            "The studio behind {name} was {studio}.",
        ),
        (
            "The score was composed by {composer}.",
            "The music of {name} is the work of {composer}.",
        ),
    ),
    "building": (
        (
            "{name} is {a_trade} in {city} that opened in {opened}.",
            "The {trade} {name} stands in {city} and was inaugurated in {opened}.",
        ),
        (
            "{name} was designed by {architect}.",
            "The plans of {name} were drawn by the architect {architect}.",
        ),
    ),
    "award": (
        (
            "{name} is a prize that {school} awards every year.",
            "The prize called {name} is presented by {school}.",
        ),
        (
            "{name} was first awarded in {since}, and its first laureate was {laureate}.",
            "In {since}, {laureate} became the first laureate of {name}.",
        ),
    ),
    "club": (
        (
            "{name} is a football club whose home ground is {ground}.",
            "The football club {name} plays its home matches at {ground}.",
        ),
        (
            "{name} was formed in {formed}.",
            "The first season of {name} was that of {formed}.",
        ),
        (
            "{name} is coached by {coach}.",
            "The coach of {name} is {coach}.",
        ),
    ),
    "painting": (
        (
            "{name} is a painting by {painter}, finished in {finished}.",
            "In {finished}, {painter} finished the painting {name}.",
        ),
        (
            "{name} hangs in {museum}.",
            "The painting is owned by the museum {museum}.",
        ),
    ),
}

REMARKS: Mapping[str, tuple[str, ...]] = {
    "land": ("Travellers praise its long summers.", "Its flag shows three stars on green."),
    "province": ("Most of its people live by farming.", "Its hills are popular with walkers."),
    "city": (
        "Its market square is lined with lime trees.",
        "A fair is held there every autumn.",
        "The old walls were pulled down long ago.",
    ),
    "river": ("It floods in most springs.", "Barges use its lower course."),
    "person": (
        "Friends remembered a dry sense of humour.",
        "A long illness interrupted this career.",
        "Many letters survive and have been printed twice.",
        "Little is known about the early years.",
    ),
    "school": ("Its library is open to the public.", "It is known for its law faculty."),
    "company": ("It still belongs to the same family.", "It went through hard times in the war."),
    "book": ("Reviewers praised its calm prose.", "It has been translated into nine languages."),
    "film": ("It was shot in eleven weeks.", "Critics were divided at first."),
    "building": ("It was restored after a fire.", "A plaque near the door lists its patrons."),
    "award": ("The winner receives a silver bowl.", "No prize was given in some years."),
    "club": ("Its supporters are known for their songs.", "It has twice won the cup."),
    "painting": ("It was stolen once and found again.", "Its frame is older than the canvas."),
}
