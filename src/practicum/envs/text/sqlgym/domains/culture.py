"""Generated databases on books, music, films, museums and sport."""

from __future__ import annotations

from practicum.envs.text.sqlgym.domains.fill import words
from practicum.envs.text.sqlgym.domains.model import (
    Domain,
    Link,
    category,
    coded,
    count,
    date,
    key,
    label,
    maybe,
    measure,
    money,
    table,
    year,
)
from practicum.envs.text.sqlgym.domains.names import (
    ADJECTIVES,
    CITIES,
    COUNTRIES,
    NOUNS,
    people,
    titles,
)

LIBRARY = Domain(
    "library",
    (
        table(
            "authors", "author", 30,
            key("author_id"),
            label("name", "name", people()),
            category("country", "home country", *COUNTRIES),
            year("birth_year", "year of birth", 1931, 1994),
        ),
        table(
            "books", "book", 140,
            key("book_id"),
            label("title", "title", titles()),
            Link("author_id", "authors", "by", "author"),
            category("genre", "genre", "crime", "science fiction", "romance", "history", "poetry"),
            year("published", "year of publication", 1985, 2023),
            count("pages", "number of pages", 90, 820),
            money("price", "price", 5, 48),
            maybe(measure("rating", "rating", 1, 5, digits=2)),
        ),
        table(
            "members", "member", 60,
            key("member_id"),
            label("name", "name", people()),
            category("city", "home town", *CITIES[:6]),
            coded("plan", "membership plan", {"S": "student", "F": "family", "R": "regular"}),
            date("joined", "joining date", "2018-01-01", "2023-06-30"),
        ),
        table(
            "loans", "loan", 320,
            key("loan_id"),
            Link("member_id", "members", "taken out by", "member"),
            Link("book_id", "books", "of", "book"),
            date("loan_date", "loan date", "2022-01-01", "2023-12-31"),
            count("days", "length in days", 2, 45),
        ),
    ),
)  # fmt: skip

MUSIC = Domain(
    "music",
    (
        table(
            "labels", "record label", 14,
            key("label_id"),
            label("label_name", "name", words(NOUNS, ("Records", "Sound", "Music"))),
            category("country", "country", *COUNTRIES[:6]),
            year("founded", "founding year", 1951, 2012),
        ),
        table(
            "artists", "artist", 36,
            key("artist_id"),
            label("artist_name", "stage name", words(("The", "Young", "Radio"), NOUNS)),
            Link("label_id", "labels", "signed to", "record label"),
            category("style", "style", "jazz", "folk", "electronic", "rock", "soul"),
            count("followers", "number of followers", 1_200, 940_000),
        ),
        table(
            "albums", "album", 100,
            key("album_id"),
            label("title", "title", titles("This", "That", "No", "Every")),
            Link("artist_id", "artists", "by", "artist"),
            year("released", "release year", 1999, 2023),
            coded("format", "format", {"CD": "compact disc", "LP": "vinyl", "DL": "download"}),
            maybe(measure("score", "critics' score", 20, 99)),
        ),
        table(
            "tracks", "track", 420,
            key("track_id"),
            label("title", "title", words(ADJECTIVES, NOUNS, ("Song", "Blues", "Waltz", "Anthem"))),
            Link("album_id", "albums", "on", "album"),
            count("seconds", "length in seconds", 95, 540),
            count("plays", "number of plays", 100, 250_000),
        ),
    ),
)  # fmt: skip

CINEMA = Domain(
    "cinema",
    (
        table(
            "directors", "director", 24,
            key("director_id"),
            label("full_name", "full name", people()),
            category("nationality", "nationality", *COUNTRIES[:7]),
            year("born", "year of birth", 1938, 1990),
        ),
        table(
            "films", "film", 90,
            key("film_id"),
            label("title", "title", titles("The", "One", "Last", "Beyond the")),
            Link("director_id", "directors", "directed by", "director"),
            category("genre", "genre", "drama", "comedy", "thriller", "documentary", "animation"),
            measure("minutes", "running time in minutes", 68, 190),
            money("budget", "budget", 90_000, 9_000_000),
            maybe(measure("stars", "star rating", 1, 5, digits=1)),
        ),
        table(
            "halls", "hall", 12,
            key("hall_id"),
            label("hall_name", "name", words(NOUNS, ("Hall", "Screen", "Room"))),
            count("seats", "number of seats", 40, 420),
            coded("projection", "projection", {"2D": "flat", "3D": "stereo", "IM": "giant"}),
        ),
        table(
            "screenings", "screening", 340,
            key("screening_id"),
            Link("film_id", "films", "of", "film"),
            Link("hall_id", "halls", "in", "hall"),
            date("day", "day", "2023-01-01", "2023-12-31"),
            category("slot", "time slot", "evening", "afternoon", "matinee", "late night"),
            count("tickets_sold", "number of tickets sold", 3, 400),
        ),
    ),
)  # fmt: skip

MUSEUM = Domain(
    "museum",
    (
        table(
            "museums", "museum", 12,
            key("museum_id"),
            label("museum_name", "name", words(CITIES, ("Gallery", "Museum"))),
            category("kind", "kind", "art", "history", "science"),
            count("annual_visitors", "number of visitors a year", 9_000, 880_000),
            money("ticket_price", "ticket price", 4, 25),
        ),
        table(
            "creators", "creator", 32,
            key("creator_id"),
            label("creator_name", "name", people()),
            category("origin", "country of origin", *COUNTRIES),
            year("birth_year", "year of birth", 1780, 1965),
        ),
        table(
            "works", "work", 150,
            key("work_id"),
            label("work_title", "title", words(ADJECTIVES, NOUNS, ("at Dawn", "in Blue", "II"))),
            Link("creator_id", "creators", "by", "creator"),
            Link("museum_id", "museums", "kept in", "museum"),
            category("medium", "medium", "oil", "bronze", "photograph", "textile", "glass"),
            year("made_in", "year of making", 1810, 2005),
            money("insured_value", "insured value", 800, 95_000),
            maybe(measure("height_cm", "height", 12, 340, unit="cm")),
        ),
        table(
            "restorations", "restoration", 130,
            key("restoration_id"),
            Link("work_id", "works", "of", "work"),
            date("started", "starting date", "2015-01-01", "2023-12-31"),
            coded("state", "state", {"D": "done", "P": "in progress", "C": "cancelled"}),
            money("cost", "cost", 150, 12_000),
        ),
    ),
)  # fmt: skip

LEAGUE = Domain(
    "league",
    (
        table(
            "teams", "team", 16,
            key("team_id"),
            label("team_name", "name", words(CITIES, ("Rovers", "United", "Athletic"))),
            category("division", "division", "north", "south", "east"),
            year("founded", "founding year", 1888, 1996),
            count("capacity", "stadium capacity", 4_000, 62_000),
        ),
        table(
            "players", "player", 150,
            key("player_id"),
            label("player_name", "name", people()),
            Link("team_id", "teams", "of", "team"),
            coded(
                "position", "position",
                {"MF": "midfielder", "DF": "defender", "FW": "forward", "GK": "goalkeeper"},
            ),
            measure("age", "age", 17, 38),
            money("wage", "weekly wage", 400, 24_000),
            category("nationality", "nationality", *COUNTRIES[:6]),
        ),
        table(
            "matches", "match", 200,
            key("match_id"),
            Link("home_team_id", "teams", "hosted by", "home team", "home matches"),
            Link("away_team_id", "teams", "visited by", "away team", "away matches"),
            date("played_on", "date", "2021-08-01", "2023-05-31"),
            count("home_goals", "number of home goals", 0, 6),
            count("away_goals", "number of away goals", 0, 5),
            count("attendance", "attendance", 900, 60_000),
            plural="matches",
        ),
        table(
            "transfers", "transfer", 90,
            key("transfer_id"),
            Link("player_id", "players", "of", "player"),
            Link("to_team_id", "teams", "to", "new team", "incoming transfers"),
            date("signed", "signing date", "2019-06-01", "2023-09-01"),
            money("fee", "fee", 50_000, 3_000_000),
        ),
    ),
)  # fmt: skip
