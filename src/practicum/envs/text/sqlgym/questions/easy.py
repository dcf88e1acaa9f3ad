"""Easy questions: one table, no grouping."""

from __future__ import annotations

from practicum.envs.text.sqlgym.questions.draft import Draft, Form, Scene, hints, required


def count_where(scene: Scene) -> Draft:
    """Count the rows that pass a condition."""
    table = scene.pick(scene.tables(is_labelled=False))
    where = scene.condition(table)
    asked = scene.pick(
        (
            f"How many {table.plural} are there {where.phrase}?",
            f"Count the {table.plural} {where.phrase}.",
            f"What is the number of {table.plural} {where.phrase}?",
        )
    )
    return Draft(
        asked,
        f"SELECT COUNT(*) FROM {table.name} WHERE {where.sql}",
        f"Count the rows of {table.name} that meet the condition.",
        hints(where),
    )


def list_where(scene: Scene) -> Draft:
    """List the names of the rows that pass a condition."""
    table = scene.pick(scene.tables())
    label, where = required(table), scene.condition(table)
    asked = scene.pick(
        (
            f"List the {label.phrase} of every {table.singular} {where.phrase}.",
            f"What is the {label.phrase} of each {table.singular} {where.phrase}?",
            f"Find all {table.plural} {where.phrase} and give the {label.phrase} of each.",
        )
    )
    return Draft(
        asked,
        f"SELECT {label.name} FROM {table.name} WHERE {where.sql}",
        f"Take {label.name} from the rows of {table.name} that meet the condition.",
        hints(where),
        table.num_rows,
    )


def list_two_columns(scene: Scene) -> Draft:
    """List names and one more column of the rows that pass a condition."""
    table = scene.pick(scene.tables("number"))
    label, other = required(table), scene.number(table)
    where = scene.condition(table, but=[other])
    asked = scene.pick(
        (
            f"Give the {label.phrase} and the {other.phrase} of each {table.singular} "
            f"{where.phrase}.",
            f"For every {table.singular} {where.phrase}, show the {label.phrase} and the "
            f"{other.phrase}.",
        )
    )
    return Draft(
        asked,
        f"SELECT {label.name}, {other.name} FROM {table.name} WHERE {where.sql}",
        f"Take {label.name} and {other.name} from the rows of {table.name} that qualify.",
        hints(where),
        table.num_rows,
    )


def aggregate(scene: Scene) -> Draft:
    """One number over the rows that pass a condition."""
    table = scene.pick(scene.tables("number", is_labelled=False))
    column = scene.number(table)
    where = scene.condition(table, but=[column])
    kinds = [("average", "AVG"), ("highest", "MAX"), ("lowest", "MIN")]
    word, function = scene.pick([*kinds, ("total", "SUM")] if column.can_sum else kinds)
    return Draft(
        f"What is the {word} {column.phrase} of the {table.plural} {where.phrase}?",
        f"SELECT {function}({column.name}) FROM {table.name} WHERE {where.sql}",
        f"Take {function} of {column.name} over the rows of {table.name} that qualify.",
        hints(where),
    )


def distinct_values(scene: Scene) -> Draft:
    """The different values of a category among the rows that pass a condition."""
    table = scene.pick(scene.tables("category", is_labelled=False))
    column = scene.pick([c for c in table.by_role("category") if not c.codes])
    where = scene.condition(table, but=[column])
    return Draft(
        f"Which values of the {column.phrase} occur among the {table.plural} {where.phrase}? "
        "List each one once.",
        f"SELECT DISTINCT {column.name} FROM {table.name} WHERE {where.sql}",
        f"Take the distinct values of {column.name} in {table.name} under the condition.",
        hints(where),
    )


def count_distinct(scene: Scene) -> Draft:
    """How many different values a category or a link takes."""
    table = scene.pick(scene.tables(is_labelled=False))
    link, where = scene.pick(table.links), scene.condition(table)
    parent = scene.domain.table(link.parent)
    return Draft(
        f"How many different {parent.plural} occur as the {link.noun} of {table.plural} "
        f"{where.phrase}?",
        f"SELECT COUNT(DISTINCT {link.column}) FROM {table.name} WHERE {where.sql}",
        f"Count the distinct {link.column} in {table.name} under the condition.",
        hints(where),
    )


def missing_value(scene: Scene) -> Draft:
    """Rows in which a value was never recorded."""
    tables = [t for t in scene.tables() if any(c.is_nullable for c in t.columns)]
    table = scene.pick(tables)
    label, column = required(table), scene.pick([c for c in table.columns if c.is_nullable])
    asked = scene.pick(
        (
            f"List the {label.phrase} of every {table.singular} without a recorded "
            f"{column.phrase}.",
            f"For which {table.plural} is the {column.phrase} missing? Give the {label.phrase}.",
        )
    )
    return Draft(
        asked,
        f"SELECT {label.name} FROM {table.name} WHERE {column.name} IS NULL",
        f"Missing values are NULL: take the rows of {table.name} where {column.name} is NULL.",
        out_of=table.num_rows,
    )


def top_one(scene: Scene) -> Draft:
    """The one row with the highest or lowest value."""
    table = scene.pick(scene.tables("number"))
    label, column = required(table), scene.number(table)
    word, order = scene.pick((("highest", "DESC"), ("lowest", "ASC")))
    return Draft(
        f"Which {table.singular} has the {word} {column.phrase}? Give the {label.phrase}.",
        f"SELECT {label.name} FROM {table.name} ORDER BY {column.name} {order} LIMIT 1",
        f"Sort {table.name} by {column.name} and keep the first row.",
    )


def starts_with(scene: Scene) -> Draft:
    """Rows whose name starts with a letter."""
    table = scene.pick(scene.tables())
    label = required(table)
    letter = scene.one_label(table)[0]
    return Draft(
        f"List the {label.phrase} of every {table.singular} whose {label.phrase} starts with "
        f'"{letter}".',
        f"SELECT {label.name} FROM {table.name} WHERE {label.name} LIKE '{letter}%'",
        f"Match {label.name} against the pattern '{letter}%'.",
        out_of=table.num_rows,
    )


FORMS: tuple[Form, ...] = (
    count_where,
    list_where,
    list_two_columns,
    aggregate,
    distinct_values,
    count_distinct,
    missing_value,
    top_one,
    starts_with,
)
