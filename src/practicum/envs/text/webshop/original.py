"""Reads the data files of the original WebShop, for users who have them.

`items_shuffle*.json` holds the products, `items_ins_v2*.json` their attributes and one
synthetic instruction each, `items_human_ins.json` instructions by people. What the
original draws at random when it starts is fixed here by hash: a price inside a product's
price range follows from its id, a price limit from its id and the instruction. So the
same files give the same tasks, everywhere and always.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from practicum.core.errors import ConfigError
from practicum.core.task import Panel, Task
from practicum.envs.text.webshop.catalogue import Price, Product, Shop
from practicum.envs.text.webshop.draw import below, price_limit
from practicum.envs.text.webshop.tasks import make_task
from practicum.envs.text.webshop.wording import option_words, price_words

SPLITS = ("train", "dev", "test")
HUMAN_FILE = "items_human_ins.json"

_DOLLARS = re.compile(r"\$\s*([\d,]+(?:\.\d+)?)")
_DEFAULT_PRICE = 100.0
_MAX_ASIN_LENGTH = 10
_PRICE_STEPS = 10_000


@dataclass(frozen=True)
class OriginalData:
    """A shop made from WebShop's files, and the tasks in them."""

    shop: Shop
    panels: Mapping[str, Panel]


def load_original(data_dir: Path) -> OriginalData:
    """Read the files in a folder; missing or unreadable ones are a `ConfigError`."""
    items_file, attributes_file = _find_files(data_dir)
    human_file = data_dir / HUMAN_FILE
    paths = [items_file, attributes_file, *([human_file] if human_file.exists() else [])]
    digest = hashlib.sha256()
    contents = []
    for path in paths:
        raw = path.read_bytes()
        digest.update(hashlib.sha256(raw).digest())
        contents.append(_parse(path, raw))
    catalogue_id = f"original-{digest.hexdigest()[:12]}"
    try:
        shop, tasks = _read(catalogue_id, *contents)
    except (AttributeError, KeyError, TypeError) as error:
        raise ConfigError(
            f"the files in {data_dir} are not as WebShop's: {type(error).__name__}: {error}"
        ) from error
    panels = {
        prefix + split: Panel(prefix + split, tuple(t for t in made if t.split == split))
        for prefix, made in tasks.items()
        for split in SPLITS
    }
    return OriginalData(shop, panels)


def _read(
    catalogue_id: str, items: Any, attributes: Any, human: Any = None
) -> tuple[Shop, dict[str, list[Task]]]:
    products = list(_products(items, attributes))
    if not products:
        raise ConfigError("items_shuffle*.json holds no product")
    shop = Shop(catalogue_id, products, shows_attributes=False)
    tasks = {"": list(_synthetic_tasks(shop, attributes))}
    if human is not None:
        tasks["human-"] = list(_human_tasks(shop, human))
    return shop, tasks


def _find_files(data_dir: Path) -> tuple[Path, Path]:
    found = sorted(data_dir.glob("items_shuffle*.json"))
    if len(found) != 1:
        names = ", ".join(path.name for path in found) or "none"
        raise ConfigError(
            f"{data_dir} must hold exactly one items_shuffle*.json, and holds {names}: "
            "keep the catalogue you want in a folder of its own"
        )
    suffix = found[0].name.removeprefix("items_shuffle")
    attributes = data_dir / f"items_ins_v2{suffix}"
    if not attributes.exists():
        raise ConfigError(f"{data_dir} lacks {attributes.name}, which goes with {found[0].name}")
    return found[0], attributes


def _parse(path: Path, raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except ValueError as error:
        raise ConfigError(f"{path} is not JSON: {error}") from error


def _products(items: Any, attributes: Mapping[str, Any]) -> Iterator[Product]:
    seen: set[str] = set()
    for item in items:
        asin = item["asin"]
        if asin == "nan" or len(asin) > _MAX_ASIN_LENGTH or asin in seen:
            continue
        seen.add(asin)
        bullets = item.get("small_description") or []
        yield Product(
            asin=asin,
            title=item["name"],
            department=item["category"],
            query=item["query"].lower().strip(),
            path=item["product_category"],
            description=item.get("full_description") or "",
            bullets=tuple(bullets if isinstance(bullets, list) else [bullets]),
            attributes=tuple(attributes.get(asin, {}).get("attributes") or ()),
            options=_options(item.get("customization_options")),
            price=_price(asin, item.get("pricing")),
        )


def _options(customization: Any) -> dict[str, tuple[str, ...]]:
    return {
        name.lower(): tuple(v["value"].strip().replace("/", " | ").lower() for v in values)
        for name, values in (customization or {}).items()
        if values is not None
    }


def _price(asin: str, pricing: str | None) -> Price:
    amounts = [float(text.replace(",", "")) for text in _DOLLARS.findall(pricing or "")]
    shown = amounts[:2] or [_DEFAULT_PRICE]
    low, high = shown[0], shown[-1]
    if low == high:
        return Price(low, high, low)
    share = below(_PRICE_STEPS + 1, asin, "original price") / _PRICE_STEPS
    return Price(low, high, round(low + (high - low) * share, 2))


def _synthetic_tasks(shop: Shop, attributes: Mapping[str, Any]) -> Iterator[Task]:
    for product in shop.products:
        entry = attributes.get(product.asin, {})
        instruction, wanted = entry.get("instruction"), entry.get("instruction_attributes")
        if not instruction or not wanted:
            continue
        limit = price_limit(product.price.paid({}), product.asin, instruction)
        names = sorted(product.options)
        # One task for every combination of options, as in the original.
        for values in itertools.product(*(dict.fromkeys(product.options[n]) for n in names)):
            options = dict(zip(names, values, strict=True))
            yield make_task(
                shop.id,
                product,
                instruction + option_words(options) + price_words(limit),
                attributes=wanted,
                options=options,
                limit=limit,
                split=_split(product.asin),
            )


def _human_tasks(shop: Shop, human: Mapping[str, Any]) -> Iterator[Task]:
    seen: set[str] = set()
    for product in shop.products:
        for entry in human.get(product.asin, []):
            if not entry["instruction_attributes"]:
                continue
            instruction = entry["instruction"].strip(".")
            limit = price_limit(product.price.paid({}), product.asin, instruction)
            task = make_task(
                shop.id,
                product,
                instruction + price_words(limit),
                attributes=entry["instruction_attributes"],
                options=entry.get("instruction_options") or [],
                limit=limit,
                split=_split(product.asin),
            )
            # Two people may have written the same words; that is one task.
            if task.id not in seen:
                seen.add(task.id)
                yield task


def _split(asin: str) -> str:
    rank = below(10, asin, "split")
    return "dev" if rank == 0 else "test" if rank <= 2 else "train"
