"""Medium questions: a join, a grouping or a sorted list."""

from __future__ import annotations

from practicum.envs.text.sqlgym.questions.draft import (
    Draft,
    Form,
    Scene,
    hints,
    literal,
    quoted,
    required,
)


def children_of(scene: Scene) -> Draft:
    """Names of the children of one parent."""
    relation = scene.pick(scene.relations(child_label=True))
    child, parent, link = relation.child, relation.parent, relation.link
    label, name = required(child), scene.busy_label(relation)
    return Draft(
        f"List the {label.phrase} of every {child.singular} {link.phrase} the "
        f"{parent.singular} {quoted(name)}.",
        f"SELECT {child.name}.{label.name} FROM {relation.join} "
        f"WHERE {parent.name}.{required(parent).name} = {literal(name)}",
        f"Join {child.name} with {parent.name} and keep the rows of that {parent.singular}.",
        out_of=child.num_rows,
    )


def count_children_of(scene: Scene) -> Draft:
    """How many children one parent has, under a condition."""
    relation = scene.pick(scene.relations())
    child, parent, link = relation.child, relation.parent, relation.link
    name, where = scene.busy_label(relation), scene.condition(child, is_qualified=True)
    return Draft(
        f"How many {child.plural} {link.phrase} the {parent.singular} {quoted(name)} are there "
        f"{where.phrase}?",
        f"SELECT COUNT(*) FROM {relation.join} "
        f"WHERE {parent.name}.{required(parent).name} = {literal(name)} AND {where.sql}",
        f"Join {child.name} with {parent.name}, keep the rows that qualify and count them.",
        hints(where),
    )


def group_count(scene: Scene) -> Draft:
    """Rows per category."""
    table = scene.pick(scene.tables("category", is_labelled=False))
    column = scene.pick(table.by_role("category"))
    where = scene.condition(table, but=[column])
    return Draft(
        f"For each {column.phrase}, how many {table.plural} are there {where.phrase}? Give the "
        f"{column.phrase} and the number, leaving out those with none.",
        f"SELECT {column.name}, COUNT(*) FROM {table.name} WHERE {where.sql} "
        f"GROUP BY {column.name}",
        f"Group the qualifying rows of {table.name} by {column.name} and count.",
        hints(where),
    )


def group_aggregate(scene: Scene) -> Draft:
    """A number per category."""
    table = scene.pick(scene.tables("category", "number", is_labelled=False))
    column, value = scene.pick(table.by_role("category")), scene.number(table)
    word, function = scene.pick((("average", "AVG"), ("highest", "MAX"), ("lowest", "MIN")))
    asked = scene.pick(
        (
            f"What is the {word} {value.phrase} of {table.plural} for each {column.phrase}? Give "
            f"the {column.phrase} and the {word} {value.phrase}.",
            f"For each {column.phrase} of {table.plural}, give the {column.phrase} and the "
            f"{word} {value.phrase}.",
        )
    )
    return Draft(
        asked,
        f"SELECT {column.name}, {function}({value.name}) FROM {table.name} GROUP BY {column.name}",
        f"Group {table.name} by {column.name} and take {function} of {value.name}.",
    )


def children_per_parent(scene: Scene) -> Draft:
    """How many children each parent has."""
    relation = scene.pick(scene.relations())
    child, parent = relation.child, relation.parent
    label, where = required(parent), scene.condition(parent, is_qualified=True)
    return Draft(
        f"For each {parent.singular} {where.phrase} that has any {relation.link.counted}, give "
        f"the {label.phrase} and the number of {relation.link.counted}.",
        f"SELECT {parent.name}.{label.name}, COUNT(*) FROM {relation.join} WHERE {where.sql} "
        f"GROUP BY {parent.name}.{parent.key}",
        f"Join {child.name} with {parent.name}, group by the {parent.singular} and count.",
        hints(where),
    )


def top_three(scene: Scene) -> Draft:
    """The three first rows in order."""
    table = scene.pick(scene.tables("number"))
    label, column = required(table), scene.number(table)
    where = scene.condition(table, but=[column])
    word, order = scene.pick((("highest", "DESC"), ("lowest", "ASC")))
    return Draft(
        f"Among the {table.plural} {where.phrase}, which three have the {word} {column.phrase}? "
        f"Give the {label.phrase} and the {column.phrase}, the {word} first.",
        f"SELECT {label.name}, {column.name} FROM {table.name} WHERE {where.sql} "
        f"ORDER BY {column.name} {order} LIMIT 3",
        f"Sort the qualifying rows of {table.name} by {column.name} and keep three.",
        hints(where),
        at_least=3,
    )


def aggregate_over_parents(scene: Scene) -> Draft:
    """A number over the children of the parents that pass a condition."""
    relation = scene.pick(scene.relations(parent_label=False, has_number=True))
    child, parent, link = relation.child, relation.parent, relation.link
    value, where = scene.number(child), scene.condition(parent, is_qualified=True)
    kinds = [("average", "AVG"), ("highest", "MAX"), ("lowest", "MIN")]
    word, function = scene.pick([*kinds, ("total", "SUM")] if value.can_sum else kinds)
    return Draft(
        f"What is the {word} {value.phrase} of {child.plural} {link.phrase} {parent.plural} "
        f"{where.phrase}?",
        f"SELECT {function}({child.name}.{value.name}) FROM {relation.join} WHERE {where.sql}",
        f"Join {child.name} with {parent.name}, keep the rows that qualify and take {function}.",
        hints(where),
    )


def two_conditions(scene: Scene) -> Draft:
    """Names of the rows that pass two conditions."""
    table = scene.pick(scene.tables())
    label, first = required(table), scene.condition(table)
    second = scene.condition(table, but=[first.column])
    return Draft(
        f"List the {label.phrase} of every {table.singular} {first.phrase} and {second.phrase}.",
        f"SELECT {label.name} FROM {table.name} WHERE {first.sql} AND {second.sql}",
        f"Keep the rows of {table.name} that meet both conditions.",
        hints(first, second),
        table.num_rows,
    )


def sorted_list(scene: Scene) -> Draft:
    """Names in order of a number."""
    table = scene.pick(scene.tables("number"))
    label, column = required(table), scene.number(table)
    where = scene.condition(table, but=[column])
    words, order = scene.pick((("highest to lowest", "DESC"), ("lowest to highest", "ASC")))
    return Draft(
        f"List the {label.phrase} of every {table.singular} {where.phrase}, sorted by "
        f"{column.phrase} from {words}.",
        f"SELECT {label.name} FROM {table.name} WHERE {where.sql} ORDER BY {column.name} {order}",
        f"Filter {table.name} and sort by {column.name}.",
        hints(where),
        table.num_rows,
        at_least=3,
    )


def children_with_parents(scene: Scene) -> Draft:
    """Names of children beside the names of their parents."""
    relation = scene.pick(scene.relations(child_label=True))
    child, parent, link = relation.child, relation.parent, relation.link
    own, theirs = required(child), required(parent)
    where = scene.condition(child, is_qualified=True)
    return Draft(
        f"For each {child.singular} {where.phrase}, give the {own.phrase} and the "
        f"{theirs.phrase} of the {link.noun}.",
        f"SELECT {child.name}.{own.name}, {parent.name}.{theirs.name} FROM {relation.join} "
        f"WHERE {where.sql}",
        f"Join {child.name} with {parent.name} and keep the rows that qualify.",
        hints(where),
        child.num_rows,
    )


FORMS: tuple[Form, ...] = (
    children_of,
    count_children_of,
    group_count,
    group_aggregate,
    children_per_parent,
    top_three,
    aggregate_over_parents,
    two_conditions,
    sorted_list,
    children_with_parents,
)
