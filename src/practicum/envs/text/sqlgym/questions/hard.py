"""Hard questions: HAVING, nested queries, set operations, joins over three tables."""

from __future__ import annotations

from practicum.envs.text.sqlgym.questions.draft import (
    Condition,
    Draft,
    Form,
    Relation,
    Scene,
    category_condition,
    hints,
    literal,
    quoted,
    required,
)


def parents_with_many(scene: Scene) -> Draft:
    """Parents that have more than so many children."""
    relation = scene.pick(scene.relations())
    parent, counted = relation.parent, relation.link.counted
    label, least = required(parent), scene.rng.between(2, 12)
    return Draft(
        f"Which {parent.plural} have more than {least} {counted}? Give the {label.phrase}.",
        f"SELECT {parent.name}.{label.name} FROM {relation.join} "
        f"GROUP BY {parent.name}.{parent.key} HAVING COUNT(*) > {least}",
        f"Join, group by {parent.singular} and keep the groups with more than {least} rows.",
        out_of=parent.num_rows,
    )


def parents_without(scene: Scene) -> Draft:
    """Parents that have no children of a kind."""
    relation = scene.pick(scene.relations())
    child, parent, link = relation.child, relation.parent, relation.link
    label, where = required(parent), scene.condition(child)
    is_narrowed = scene.rng.below(3) > 0
    which = f" {where.phrase}" if is_narrowed else " at all"
    inner = f" WHERE {where.sql}" if is_narrowed else ""
    return Draft(
        f"Which {parent.plural} have no {link.counted}{which}? Give the {label.phrase}.",
        f"SELECT {label.name} FROM {parent.name} WHERE {parent.key} NOT IN "
        f"(SELECT {link.column} FROM {child.name}{inner})",
        f"Find the {parent.plural} in {child.name} that qualify and take all others.",
        hints(where) if is_narrowed else "",
        parent.num_rows,
    )


def above_average(scene: Scene) -> Draft:
    """Rows above the average of all rows."""
    table = scene.pick(scene.tables("number"))
    label, column = required(table), scene.number(table)
    where = scene.condition(table, but=[column])
    word, operator = scene.pick((("above", ">"), ("below", "<")))
    return Draft(
        f"List the {label.phrase} of every {table.singular} {where.phrase} and whose "
        f"{column.phrase} is {word} the average {column.phrase} of all {table.plural}.",
        f"SELECT {label.name} FROM {table.name} WHERE {where.sql} AND {column.name} {operator} "
        f"(SELECT AVG({column.name}) FROM {table.name})",
        f"Compare {column.name} with its average over the whole table in a subquery.",
        hints(where),
        table.num_rows,
    )


def most_children(scene: Scene) -> Draft:
    """The parent with the most children of a kind."""
    relation = scene.pick(scene.relations())
    child, parent, link = relation.child, relation.parent, relation.link
    label, where = required(parent), scene.condition(child, is_qualified=True)
    return Draft(
        f"Which {parent.singular} has the most {link.counted} {where.phrase}? Give the "
        f"{label.phrase} and the number of such {link.counted}.",
        f"SELECT {parent.name}.{label.name}, COUNT(*) FROM {relation.join} WHERE {where.sql} "
        f"GROUP BY {parent.name}.{parent.key} ORDER BY COUNT(*) DESC LIMIT 1",
        f"Count per {parent.singular}, sort by the count and keep the first.",
        hints(where),
        contenders=f"SELECT COUNT(*) FROM {relation.join} WHERE {where.sql} "
        f"GROUP BY {parent.name}.{parent.key} ORDER BY 1 DESC LIMIT 2",
    )


def both_kinds(scene: Scene) -> Draft:
    """Parents that have children of one kind and of another."""
    relation, one, other = _two_kinds(scene)
    parent, counted = relation.parent, relation.link.counted
    label = required(parent)
    return Draft(
        f"Which {parent.plural} have both {counted} {one.phrase} and {counted} {other.phrase}? "
        f"Give the {label.phrase}.",
        f"{_having(relation, one)} INTERSECT {_having(relation, other)}",
        "Find those with the one kind and those with the other, and intersect the two.",
        hints(one, other),
        parent.num_rows,
    )


def one_kind_only(scene: Scene) -> Draft:
    """Parents that have children of one kind and none of another."""
    relation, one, other = _two_kinds(scene)
    parent, counted = relation.parent, relation.link.counted
    label = required(parent)
    return Draft(
        f"Which {parent.plural} have {counted} {one.phrase} but no {counted} {other.phrase}? "
        f"Give the {label.phrase}.",
        f"{_having(relation, one)} EXCEPT {_having(relation, other)}",
        "Find those with the one kind and take away those with the other.",
        hints(one, other),
        parent.num_rows,
    )


def _two_kinds(scene: Scene) -> tuple[Relation, Condition, Condition]:
    relations = [r for r in scene.relations() if r.child.by_role("category")]
    relation = scene.pick(relations)
    column = scene.pick(relation.child.by_role("category"))
    values = sorted({str(value) for value in scene.values(relation.child, column)})
    first, second = scene.rng.sample(values, 2)
    name = f"{relation.child.name}.{column.name}"
    return (
        relation,
        category_condition(name, column, first),
        category_condition(name, column, second),
    )


def _having(relation: Relation, where: Condition) -> str:
    label = required(relation.parent)
    return f"SELECT {relation.parent.name}.{label.name} FROM {relation.join} WHERE {where.sql}"


def count_over_two_links(scene: Scene) -> Draft:
    """How many grandchildren one row has."""
    chains = [
        (lower, upper)
        for lower in scene.relations(parent_label=False)
        for upper in scene.relations()
        if upper.child is lower.parent and upper.parent is not lower.child
    ]
    lower, upper = scene.pick(chains)
    name, grand = scene.busy_label(upper), upper.parent
    return Draft(
        f"How many {lower.child.plural} {lower.link.phrase} {lower.parent.plural} "
        f"{upper.link.phrase} the {grand.singular} {quoted(name)} are there?",
        f"SELECT COUNT(*) FROM {lower.join} JOIN {grand.name} ON "
        f"{upper.child.name}.{upper.link.column} = {grand.name}.{grand.key} "
        f"WHERE {grand.name}.{required(grand).name} = {literal(name)}",
        f"Join {lower.child.name}, {lower.parent.name} and {grand.name} and count.",
    )


def extreme_per_parent(scene: Scene) -> Draft:
    """A number over the children of each parent that passes a condition."""
    relation = scene.pick(scene.relations(has_number=True))
    child, parent, link = relation.child, relation.parent, relation.link
    label, value = required(parent), scene.number(child)
    where = scene.condition(parent, is_qualified=True)
    word, function = scene.pick((("average", "AVG"), ("highest", "MAX"), ("lowest", "MIN")))
    least = scene.rng.between(2, 6)
    return Draft(
        f"For each {parent.singular} {where.phrase} with at least {least} {link.counted}, give "
        f"the {label.phrase} and the {word} {value.phrase} of these {link.counted}.",
        f"SELECT {parent.name}.{label.name}, {function}({child.name}.{value.name}) "
        f"FROM {relation.join} WHERE {where.sql} GROUP BY {parent.name}.{parent.key} "
        f"HAVING COUNT(*) >= {least}",
        f"Join, group by {parent.singular}, keep groups of at least {least} and aggregate.",
        hints(where),
        parent.num_rows,
    )


def best_category(scene: Scene) -> Draft:
    """The category with the highest or lowest average."""
    table = scene.pick(scene.tables("category", "number", is_labelled=False))
    column, value = scene.pick(table.by_role("category")), scene.number(table)
    word, order = scene.pick((("highest", "DESC"), ("lowest", "ASC")))
    return Draft(
        f"For which {column.phrase} is the average {value.phrase} of {table.plural} the {word}? "
        f"Give only the {column.phrase}.",
        f"SELECT {column.name} FROM {table.name} GROUP BY {column.name} "
        f"ORDER BY AVG({value.name}) {order} LIMIT 1",
        f"Group by {column.name}, sort by the average of {value.name} and keep the first.",
        contenders=f"SELECT AVG({value.name}) FROM {table.name} GROUP BY {column.name} "
        f"ORDER BY 1 {order} LIMIT 2",
    )


def categories_above(scene: Scene) -> Draft:
    """Categories whose average is above a bound."""
    table = scene.pick(scene.tables("category", "number", is_labelled=False))
    column, value = scene.pick(table.by_role("category")), scene.number(table)
    numbers = [float(v) for v in scene.values(table, value)]
    bound = round(sum(numbers) / len(numbers))
    return Draft(
        f"For which values of the {column.phrase} is the average {value.phrase} of "
        f"{table.plural} greater than {bound}? Give the {column.phrase} and the average.",
        f"SELECT {column.name}, AVG({value.name}) FROM {table.name} GROUP BY {column.name} "
        f"HAVING AVG({value.name}) > {bound}",
        f"Group by {column.name} and keep the groups whose average is above {bound}.",
        out_of=len({str(v) for v in scene.values(table, column)}),
    )


FORMS: tuple[Form, ...] = (
    parents_with_many,
    parents_without,
    above_average,
    most_children,
    both_kinds,
    one_kind_only,
    count_over_two_links,
    extreme_per_parent,
    best_category,
    categories_above,
)
