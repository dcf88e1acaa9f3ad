"""Extra hard questions: windows, correlated queries, division, several aggregates at once."""

from __future__ import annotations

from practicum.envs.text.sqlgym.questions.draft import (
    Draft,
    Form,
    Scene,
    category_condition,
    hints,
    literal,
    quoted,
    required,
)


def top_per_category(scene: Scene) -> Draft:
    """The best row of each category."""
    table = scene.pick(scene.tables("category", "number"))
    label, column = required(table), scene.pick(table.by_role("category"))
    value = scene.number(table)
    word, order = scene.pick((("highest", "DESC"), ("lowest", "ASC")))
    return Draft(
        f"For each {column.phrase}, which {table.singular} has the {word} {value.phrase}? Give "
        f"the {column.phrase}, the {label.phrase} and the {value.phrase}.",
        f"SELECT {column.name}, {label.name}, {value.name} FROM (SELECT {column.name}, "
        f"{label.name}, {value.name}, ROW_NUMBER() OVER (PARTITION BY {column.name} "
        f"ORDER BY {value.name} {order}) AS place FROM {table.name}) WHERE place = 1",
        f"Rank the rows within each {column.name} by {value.name} and keep the first of each.",
    )


def ranked_list(scene: Scene) -> Draft:
    """Rows with their rank."""
    table = scene.pick(scene.tables("number"))
    label, value = required(table), scene.number(table)
    where = scene.condition(table, but=[value])
    return Draft(
        f"Rank the {table.plural} {where.phrase} by {value.phrase}, the highest being 1. Give "
        f"the rank and the {label.phrase}, in order of rank.",
        f"SELECT RANK() OVER (ORDER BY {value.name} DESC) AS place, {label.name} "
        f"FROM {table.name} WHERE {where.sql} ORDER BY place",
        f"Number the qualifying rows with a window over {value.name} and sort by it.",
        hints(where),
        table.num_rows,
        at_least=3,
    )


def above_own_category(scene: Scene) -> Draft:
    """Rows above the average of their own category."""
    table = scene.pick(scene.tables("category", "number"))
    label, column = required(table), scene.pick(table.by_role("category"))
    value = scene.number(table)
    where = scene.condition(table, but=[value, column])
    return Draft(
        f"List the {label.phrase} of every {table.singular} {where.phrase} and whose "
        f"{value.phrase} is above the average {value.phrase} of all {table.plural} with the same "
        f"{column.phrase}.",
        f"SELECT {label.name} FROM {table.name} AS one WHERE {where.sql} "
        f"AND {value.name} > (SELECT AVG({value.name}) FROM {table.name} AS other "
        f"WHERE other.{column.name} = one.{column.name})",
        f"Compare {value.name} with the average of the row's own {column.name}.",
        hints(where),
        table.num_rows,
    )


def percentage(scene: Scene) -> Draft:
    """What share of a parent's children passes a condition."""
    relation = scene.pick(scene.relations())
    child, parent, link = relation.child, relation.parent, relation.link
    name, where = scene.busy_label(relation), scene.condition(child, is_qualified=True)
    return Draft(
        f"Of the {child.plural} {link.phrase} the {parent.singular} {quoted(name)}, what "
        f"percentage are {child.plural} {where.phrase}? Give a number from 0 to 100, not rounded.",
        f"SELECT 100.0 * SUM(CASE WHEN {where.sql} THEN 1 ELSE 0 END) / COUNT(*) "
        f"FROM {relation.join} WHERE {parent.name}.{required(parent).name} = {literal(name)}",
        "Sum a case expression over the rows, divide by their number and multiply by 100.0.",
        hints(where),
    )


def only_such_children(scene: Scene) -> Draft:
    """Parents all of whose children pass a condition."""
    relation = scene.pick(scene.relations())
    child, parent, link = relation.child, relation.parent, relation.link
    label, where = required(parent), scene.condition(child)
    return Draft(
        f"Which {parent.plural} have only {link.counted} {where.phrase}? Leave out "
        f"{parent.plural} without any {link.counted}. Give the {label.phrase}.",
        f"SELECT {label.name} FROM {parent.name} WHERE {parent.key} IN "
        f"(SELECT {link.column} FROM {child.name}) AND {parent.key} NOT IN "
        f"(SELECT {link.column} FROM {child.name} WHERE NOT {where.sql})",
        f"Take the {parent.plural} in {child.name} and leave out those with a row that fails.",
        hints(where),
        parent.num_rows,
    )


def side_by_side(scene: Scene) -> Draft:
    """Two counts beside each other for each category."""
    tables = [
        t for t in scene.tables("category", is_labelled=False) if len(t.by_role("category")) > 1
    ]
    table = scene.pick(tables)
    rows, across = scene.rng.sample(table.by_role("category"), 2)
    values = sorted({str(value) for value in scene.values(table, across)})
    first, second = (
        category_condition(across.name, across, v) for v in scene.rng.sample(values, 2)
    )
    return Draft(
        f"For each {rows.phrase} of {table.plural}, give the {rows.phrase}, the number of "
        f"{table.plural} {first.phrase} and the number of {table.plural} {second.phrase}.",
        f"SELECT {rows.name}, SUM(CASE WHEN {first.sql} THEN 1 ELSE 0 END), "
        f"SUM(CASE WHEN {second.sql} THEN 1 ELSE 0 END) FROM {table.name} GROUP BY {rows.name}",
        f"Group by {rows.name} and sum a case expression for each of the two values.",
        hints(first, second),
    )


def mean_children(scene: Scene) -> Draft:
    """The average number of children, parents without any included."""
    relation = scene.pick(scene.relations())
    child, parent, link = relation.child, relation.parent, relation.link
    where = scene.condition(parent, is_qualified=True)
    return Draft(
        f"What is the average number of {link.counted} per {parent.singular} over the "
        f"{parent.plural} {where.phrase}? A {parent.singular} without any counts as 0.",
        f"SELECT AVG(num) FROM (SELECT COUNT({child.name}.{child.key}) AS num FROM {parent.name} "
        f"LEFT JOIN {child.name} ON {child.name}.{link.column} = {parent.name}.{parent.key} "
        f"WHERE {where.sql} GROUP BY {parent.name}.{parent.key})",
        f"Count per {parent.singular} with a left join, so that none is lost, and average.",
        hints(where),
    )


def second_best(scene: Scene) -> Draft:
    """The row in second place."""
    table = scene.pick(scene.tables("number"))
    label, value = required(table), scene.number(table)
    where = scene.condition(table, but=[value])
    word, order = scene.pick((("highest", "DESC"), ("lowest", "ASC")))
    return Draft(
        f"Among the {table.plural} {where.phrase}, which one has the second {word} "
        f"{value.phrase}? Give the {label.phrase} and the {value.phrase}.",
        f"SELECT {label.name}, {value.name} FROM {table.name} WHERE {where.sql} "
        f"ORDER BY {value.name} {order} LIMIT 1 OFFSET 1",
        f"Sort the qualifying rows by {value.name}, skip one and keep one.",
        hints(where),
        contenders=f"SELECT {value.name} FROM {table.name} WHERE {where.sql} "
        f"ORDER BY 1 {order} LIMIT 3",
    )


def difference_of_averages(scene: Scene) -> Draft:
    """How far two categories are apart."""
    table = scene.pick(scene.tables("category", "number", is_labelled=False))
    column, value = scene.pick(table.by_role("category")), scene.number(table)
    values = sorted({str(v) for v in scene.values(table, column)})
    first, second = (
        category_condition(column.name, column, v) for v in scene.rng.sample(values, 2)
    )
    return Draft(
        f"What is the average {value.phrase} of {table.plural} {first.phrase} minus the average "
        f"{value.phrase} of {table.plural} {second.phrase}?",
        f"SELECT (SELECT AVG({value.name}) FROM {table.name} WHERE {first.sql}) - "
        f"(SELECT AVG({value.name}) FROM {table.name} WHERE {second.sql})",
        "Take the two averages in subqueries and subtract the second from the first.",
        hints(first, second),
    )


def running_total(scene: Scene) -> Draft:
    """A total that grows from day to day."""
    relations = [
        r
        for r in scene.relations()
        if r.child.by_role("date") and any(c.can_sum for c in r.child.by_role("number"))
    ]
    relation = scene.pick(relations)
    child, parent, link = relation.child, relation.parent, relation.link
    day = scene.pick(child.by_role("date"))
    value = scene.pick([c for c in child.by_role("number") if c.can_sum])
    name = scene.busy_label(relation)
    return Draft(
        f"For the {child.plural} {link.phrase} the {parent.singular} {quoted(name)}, in order of "
        f"{day.phrase}, give the {day.phrase} and the running total of the {value.phrase}.",
        f"SELECT {child.name}.{day.name}, SUM({child.name}.{value.name}) OVER "
        f"(ORDER BY {child.name}.{day.name}) FROM {relation.join} "
        f"WHERE {parent.name}.{required(parent).name} = {literal(name)} "
        f"ORDER BY {child.name}.{day.name}",
        f"Sum {value.name} with a window ordered by {day.name}.",
        out_of=child.num_rows,
        at_least=3,
    )


def busiest_month(scene: Scene) -> Draft:
    """The month with the most rows."""
    tables = scene.tables("date", is_labelled=False)
    table = scene.pick(tables)
    day = scene.pick(table.by_role("date"))
    where = scene.condition(table, but=[day])
    month = f"strftime('%Y-%m', {day.name})"
    return Draft(
        f"Going by the {day.phrase}, which month has the most {table.plural} {where.phrase}? "
        "Give the month as YYYY-MM and the number.",
        f"SELECT {month} AS month, COUNT(*) FROM {table.name} WHERE {where.sql} "
        "GROUP BY month ORDER BY COUNT(*) DESC LIMIT 1",
        f"Cut {day.name} down to year and month, group, sort by the count and keep the first.",
        hints(where),
        contenders=f"SELECT COUNT(*) FROM {table.name} WHERE {where.sql} GROUP BY {month} "
        "ORDER BY 1 DESC LIMIT 2",
    )


def share_of_total(scene: Scene) -> Draft:
    """What share of a total each category has."""
    tables = [
        t
        for t in scene.tables("category", "number", is_labelled=False)
        if any(c.can_sum for c in t.by_role("number"))
    ]
    table = scene.pick(tables)
    column = scene.pick(table.by_role("category"))
    value = scene.pick([c for c in table.by_role("number") if c.can_sum])
    return Draft(
        f"For each {column.phrase} of {table.plural}, give the {column.phrase} and its "
        f"percentage of the total {value.phrase} of all {table.plural}, from 0 to 100 and not "
        "rounded.",
        f"SELECT {column.name}, 100.0 * SUM({value.name}) / "
        f"(SELECT SUM({value.name}) FROM {table.name}) FROM {table.name} GROUP BY {column.name}",
        f"Sum {value.name} per {column.name} and divide by the sum over the whole table.",
    )


FORMS: tuple[Form, ...] = (
    top_per_category,
    ranked_list,
    above_own_category,
    percentage,
    only_such_children,
    side_by_side,
    mean_children,
    second_best,
    difference_of_averages,
    running_total,
    busiest_month,
    share_of_total,
)
