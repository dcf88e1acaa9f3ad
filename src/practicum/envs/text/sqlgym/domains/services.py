"""Generated databases on airlines, hotels, hospitals and schools."""

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
    cities,
    people,
)

AIRLINE = Domain(
    "airline",
    (
        table(
            "airlines", "airline", 14,
            key("airline_id"),
            label("airline_name", "name", words(ADJECTIVES, ("Air", "Wings", "Airways"))),
            category("country", "country", *COUNTRIES[:5]),
            count("fleet_size", "fleet size", 4, 210, unit="aircraft"),
        ),
        table(
            "airports", "airport", 20,
            key("airport_id"),
            label("city", "city", cities()),
            category("continent", "continent", "Europe", "Asia", "Africa", "America"),
            measure("elevation", "elevation in metres", 2, 2_600),
        ),
        table(
            "flights", "flight", 220,
            key("flight_id"),
            Link("airline_id", "airlines", "operated by", "airline"),
            Link("origin_id", "airports", "departing from", "origin airport", "departing flights"),
            Link("target_id", "airports", "arriving at", "target airport", "arriving flights"),
            date("flight_date", "date", "2022-01-01", "2023-12-31"),
            measure("distance_km", "distance", 180, 9_800, unit="km"),
            measure("delay_min", "delay in minutes", 0, 240),
        ),
        table(
            "bookings", "booking", 380,
            key("booking_id"),
            Link("flight_id", "flights", "for", "flight"),
            coded("class", "travel class", {"E": "economy", "B": "business", "F": "first"}),
            money("fare", "fare", 35, 2_400),
            maybe(count("bags", "number of bags", 0, 4)),
        ),
    ),
)  # fmt: skip

HOTEL = Domain(
    "hotels",
    (
        table(
            "hotels", "hotel", 18,
            key("hotel_id"),
            label("hotel_name", "name", words(("Hotel", "Inn", "Villa"), NOUNS)),
            category("city", "city", *CITIES[2:8]),
            measure("stars", "number of stars", 1, 5),
            year("built", "year of construction", 1890, 2019),
        ),
        table(
            "rooms", "room", 120,
            key("room_id"),
            Link("hotel_id", "hotels", "in", "hotel"),
            coded("room_type", "type", {"D": "double", "S": "single", "U": "suite"}),
            money("nightly_rate", "nightly rate", 38, 420),
            measure("floor", "floor", 0, 14),
        ),
        table(
            "guests", "guest", 80,
            key("guest_id"),
            label("guest_name", "name", people()),
            category("country", "home country", *COUNTRIES),
            date("birthday", "date of birth", "1945-01-01", "2004-12-31"),
        ),
        table(
            "stays", "stay", 280,
            key("stay_id"),
            Link("room_id", "rooms", "in", "room"),
            Link("guest_id", "guests", "of", "guest"),
            date("check_in", "check-in date", "2021-01-01", "2023-12-31"),
            count("nights", "number of nights", 1, 21, unit="nights"),
            category("purpose", "purpose", "holiday", "business", "family visit"),
            maybe(measure("review_score", "review score", 1, 10)),
        ),
    ),
)  # fmt: skip

HOSPITAL = Domain(
    "hospital",
    (
        table(
            "wards", "ward", 10,
            key("ward_id"),
            label(
                "ward_name", "name",
                words((
                    "Cardiology", "Surgery", "Paediatrics", "Oncology", "Neurology", "Emergency",
                    "Maternity", "Orthopaedics", "Radiology", "Dermatology", "Geriatrics",
                )),
            ),
            count("beds", "number of beds", 8, 64),
            category("building", "building", "A", "B", "C"),
        ),
        table(
            "doctors", "doctor", 40,
            key("doctor_id"),
            label("doctor_name", "name", people()),
            Link("ward_id", "wards", "in", "ward"),
            coded("rank", "rank", {"R": "resident", "S": "specialist", "H": "head physician"}),
            year("hired", "year of hiring", 1994, 2023),
            money("salary", "monthly salary", 3_100, 14_500),
        ),
        table(
            "patients", "patient", 110,
            key("patient_id"),
            label("patient_name", "name", people()),
            category("blood_type", "blood type", "A+", "O+", "B+", "AB-", "O-"),
            date("birth_date", "date of birth", "1932-01-01", "2019-12-31"),
            maybe(measure("weight_kg", "weight", 9, 118, digits=1, unit="kg")),
        ),
        table(
            "treatments", "treatment", 300,
            key("treatment_id"),
            Link("patient_id", "patients", "of", "patient"),
            Link("doctor_id", "doctors", "by", "doctor"),
            date("given_on", "date", "2022-01-01", "2023-12-31"),
            category("kind", "kind", "check-up", "surgery", "therapy", "vaccination"),
            money("cost", "cost", 25, 5_200),
        ),
    ),
)  # fmt: skip

SCHOOL = Domain(
    "school",
    (
        table(
            "teachers", "teacher", 26,
            key("teacher_id"),
            label("teacher_name", "name", people()),
            category("department", "department", "science", "languages", "arts", "sports"),
            year("hired", "year of hiring", 1988, 2022),
            money("salary", "yearly salary", 28_000, 71_000),
        ),
        table(
            "courses", "course", 60,
            key("course_id"),
            label(
                "course_title", "title",
                words(
                    ("Modern", "Applied", "Classical", "Practical", "Theoretical"),
                    ("Physics", "Drama", "Spanish", "Biology", "Rowing", "Ceramics", "Logic"),
                    ("I", "II"),
                ),
            ),
            Link("teacher_id", "teachers", "taught by", "teacher"),
            coded("term", "term", {"A": "autumn", "W": "winter", "S": "spring"}),
            count("credits", "number of credits", 2, 12),
            count("places", "number of places", 8, 40),
        ),
        table(
            "students", "student", 120,
            key("student_id"),
            label("student_name", "name", people()),
            category("house", "house", "oak", "ash", "elm", "yew"),
            date("birthday", "date of birth", "2004-01-01", "2009-12-31"),
            maybe(measure("height_cm", "height", 138, 196, unit="cm")),
        ),
        table(
            "enrolments", "enrolment", 340,
            key("enrolment_id"),
            Link("student_id", "students", "of", "student"),
            Link("course_id", "courses", "in", "course"),
            measure("grade", "grade", 1, 100),
            count("absences", "number of absences", 0, 18),
        ),
    ),
)  # fmt: skip
