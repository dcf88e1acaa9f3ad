"""Browser tasks: local pages, no network. What a page sends is saved as a file in Downloads."""

from __future__ import annotations

import html
import json
import random
from typing import Any

from practicum.envs.desktop.pack.family import CITIES, FIRST_NAMES, FRUIT, NOUNS, Family, steps

Drawn = dict[str, Any]
SENT = "~/Downloads/sent.json"

_SEND = """
<script>
function send(form) {
  const data = Object.fromEntries(new FormData(form).entries());
  for (const box of form.querySelectorAll('input[type=checkbox]')) data[box.name] = box.checked;
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([JSON.stringify(data)]));
  link.download = 'sent.json';
  link.click();
  document.title = 'Sent';
  form.remove();
  return false;
}
</script>
"""


def page(title: str, body: str) -> str:
    """A whole page."""
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{html.escape(title)}</title>'
        f"<body><h1>{html.escape(title)}</h1>{body}</body></html>"
    )


def _site(pages: dict[str, str], title: str, shows: str) -> list[dict[str, Any]]:
    """Write pages and open `index.html` in the browser."""
    return [
        *(
            {"do": "write", "path": f"~/site/{name}.html", "text": text}
            for name, text in pages.items()
        ),
        {
            "do": "launch",
            "app": "browser",
            "arguments": ["file://~/site/index.html"],
            "window": title,
        },
        {"do": "await", "shows": shows},
    ]


def _sent(wanted: dict[str, Any]) -> dict[str, Any]:
    code = f"""
import json
def check(files, answer):
    path = files.get({SENT!r})
    return path is not None and json.loads(path.read_text()) == json.loads({json.dumps(wanted)!r})
"""
    return {"kind": "python", "code": code, "files": [SENT]}


def _table(rng: random.Random) -> Drawn:
    people = rng.sample(FIRST_NAMES, 6)
    prices = rng.sample(range(100, 999), 6)
    rows = "".join(
        f"<tr><td>{person}</td><td>{rng.choice(CITIES)}</td><td>{price}</td></tr>"
        for person, price in zip(people, prices, strict=True)
    )
    wanted = rng.randrange(6)
    body = f"<table><tr><th>Guest</th><th>City</th><th>Room</th></tr>{rows}</table>"
    return {
        "instruction": f"The page in the browser lists guests. In which room is "
        f"{people[wanted]}? Answer with the number.",
        "setup": _site({"index": page("Guests", body)}, "Guests", 'heading "Guests"'),
        "checks": [{"kind": "answer", "text": {"equals": str(prices[wanted])}}],
        "oracle": steps(f"answer {prices[wanted]}"),
        "negative": steps(f"answer {prices[wanted - 1]}"),
    }


def _form(rng: random.Random) -> Drawn:
    person, other = rng.sample(FIRST_NAMES, 2)
    city, count = rng.choice(CITIES), str(rng.randint(2, 9))
    body = (
        '<form onsubmit="return send(this)">'
        '<p><label>Name <input name="name"></label></p>'
        '<p><label>City <input name="city"></label></p>'
        '<p><label>Guests <input name="guests"></label></p>'
        "<p><button>Book</button></p></form>" + _SEND
    )

    def book(name: str) -> list[dict[str, str]]:
        return steps(
            'click [entry "Name"]',
            f"type {name}",
            "key tab",
            f"type {city}",
            "key tab",
            f"type {count}",
            'click [push button "Book"]',
            ("wait 0.5", 'window "Sent*"'),
        )

    return {
        "instruction": f"Book on the page in the browser for {person} in {city}, {count} guests.",
        "setup": _site({"index": page("Booking", body)}, "Booking", 'push button "Book"'),
        "checks": [_sent({"name": person, "city": city, "guests": count})],
        "milestones": [
            {"name": "sent", "check": {"kind": "window", "title": {"contains": "Sent"}}}
        ],
        "oracle": book(person),
        "negative": book(other),
    }


def _follow(rng: random.Random) -> Drawn:
    shelves = rng.sample(NOUNS, 3)
    books = rng.sample([n for n in NOUNS if n not in shelves], 6)
    pages = {
        "index": page(
            "Library", "".join(f'<p><a href="{s}.html">Shelf {s}</a></p>' for s in shelves)
        )
    }
    for number, shelf in enumerate(shelves):
        links = books[2 * number : 2 * number + 2]
        body = "".join(f'<p><a href="book-{b}.html">Book {b}</a></p>' for b in links)
        pages[shelf] = page(f"Shelf {shelf}", body)
    for book in books:
        pages[f"book-{book}"] = page(f"Book {book}", f"<p>All about {book}.</p>")
    number = rng.randrange(3)
    shelf, wanted, other = shelves[number], books[2 * number], books[2 * number + 1]

    def go(book: str) -> list[dict[str, str]]:
        return steps(
            f'click [link "Shelf {shelf}"]',
            f'click [link "Book {book}"]',
            ("wait 0.5", f'window "Book {book}*"'),
        )

    return {
        "instruction": f"Open the page of the book {wanted} in the browser. It stands on the shelf "
        f"{shelf}.",
        "setup": _site(pages, "Library", f'link "Shelf {shelf}"'),
        "checks": [{"kind": "window", "title": {"contains": f"Book {wanted}"}}],
        "milestones": [
            {
                "name": "shelf",
                "check": {"kind": "window", "title": {"contains": f"Shelf {shelf}"}},
            },
        ],
        "oracle": go(wanted),
        "negative": go(other),
    }


def _boxes(rng: random.Random) -> Drawn:
    items = rng.sample(FRUIT, 5)
    wanted = sorted(rng.sample(items, 2), key=items.index)
    boxes = "".join(
        f'<p><label><input type="checkbox" name="{item}"> {item}</label></p>' for item in items
    )
    body = f'<form onsubmit="return send(this)">{boxes}<button>Order</button></form>{_SEND}'

    def order(names: list[str]) -> list[dict[str, str]]:
        ticks = [f'click [check box "{name}"]' for name in names]
        return steps(*ticks, 'click [push button "Order"]', ("wait 0.5", 'window "Sent*"'))

    return {
        "instruction": f"Order {wanted[0]} and {wanted[1]} on the page in the browser, and nothing "
        "else.",
        "setup": _site({"index": page("Fruit", body)}, "Fruit", 'push button "Order"'),
        "checks": [_sent({item: item in wanted for item in items})],
        "oracle": order(wanted),
        "negative": order(wanted[:1]),
    }


def _download(rng: random.Random) -> Drawn:
    names = rng.sample(NOUNS, 4)
    wanted, other = rng.sample(names, 2)
    links = "".join(
        f'<p><a download="{name}.txt" href="data:text/plain,report%20{name}">Report {name}</a></p>'
        for name in names
    )

    def fetch(name: str) -> list[dict[str, str]]:
        return steps(f'click [link "Report {name}"]', "wait 2")

    return {
        "instruction": f"Download the report {wanted} from the page in the browser.",
        "setup": _site({"index": page("Reports", links)}, "Reports", f'link "Report {wanted}"'),
        "checks": [
            {
                "kind": "file",
                "path": f"~/Downloads/{wanted}.txt",
                "text": {"equals": f"report {wanted}"},
            }
        ],
        "oracle": fetch(wanted),
        "negative": fetch(other),
    }


def _hidden(rng: random.Random) -> Drawn:
    name, code = rng.choice(NOUNS), str(rng.randint(1000, 9999))
    wrong = str(int(code) + 1)
    body = (
        f"<details><summary>Show the code of {name}</summary><p>The code is {code}.</p></details>"
        '<form onsubmit="return send(this)"><p><label>Code <input name="code"></label></p>'
        "<button>Unlock</button></form>" + _SEND
    )

    def unlock(value: str) -> list[dict[str, str]]:
        return steps(
            f'click [toggle button "Show the code of {name}"]',
            'click [entry "Code"]',
            f"type {value}",
            'click [push button "Unlock"]',
            ("wait 0.5", 'window "Sent*"'),
        )

    return {
        "instruction": f"Unlock {name} on the page in the browser with the code that the page can "
        "show you.",
        "setup": _site({"index": page("Locks", body)}, "Locks", 'push button "Unlock"'),
        "checks": [_sent({"code": code})],
        "oracle": unlock(code),
        "negative": unlock(wrong),
    }


FAMILIES = (
    Family("table", "browser", "train", _table),
    Family("form", "browser", "train", _form),
    Family("follow", "browser", "train", _follow),
    Family("boxes", "browser", "dev", _boxes),
    Family("download", "browser", "test", _download),
    Family("hidden", "browser", "test", _hidden),
)
