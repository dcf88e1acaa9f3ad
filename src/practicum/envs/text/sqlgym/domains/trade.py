"""Generated databases on shops, banks, farms and restaurants."""

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
from practicum.envs.text.sqlgym.domains.names import CITIES, COUNTRIES, LAST_NAMES, NOUNS, people

SHOP = Domain(
    "shop",
    (
        table(
            "suppliers", "supplier", 18,
            key("supplier_id"),
            label("company", "company name", words(LAST_NAMES, ("Trading", "Supplies", "Bros"))),
            category("country", "country", *COUNTRIES[:6]),
            measure("lead_days", "delivery time in days", 2, 40),
        ),
        table(
            "products", "product", 110,
            key("product_id"),
            label(
                "product_name", "name",
                words(
                    ("Oak", "Steel", "Linen", "Travel", "Kitchen", "Garden", "Desk", "Pocket"),
                    ("Lamp", "Chair", "Kettle", "Blanket", "Radio", "Knife", "Mirror", "Clock"),
                    ("Basic", "Plus", "Pro"),
                ),
            ),
            Link("supplier_id", "suppliers", "from", "supplier"),
            category("department", "department", "home", "outdoor", "office", "kitchen"),
            money("price", "price", 4, 260),
            count("stock", "number in stock", 0, 300),
            maybe(measure("weight_kg", "weight", 1, 30, digits=1, unit="kg")),
        ),
        table(
            "customers", "customer", 70,
            key("customer_id"),
            label("customer_name", "name", people()),
            category("city", "city", *CITIES[4:11]),
            coded("tier", "loyalty tier", {"B": "bronze", "S": "silver", "G": "gold"}),
            date("registered", "registration date", "2017-01-01", "2023-03-31"),
        ),
        table(
            "orders", "order", 260,
            key("order_id"),
            Link("customer_id", "customers", "placed by", "customer"),
            Link("product_id", "products", "for", "product"),
            date("ordered_on", "order date", "2021-01-01", "2023-12-31"),
            count("quantity", "quantity", 1, 12),
            category("channel", "sales channel", "web", "phone", "store"),
        ),
    ),
)  # fmt: skip

BANK = Domain(
    "bank",
    (
        table(
            "branches", "branch", 12,
            key("branch_id"),
            label("branch_name", "name", words(CITIES, ("North", "Central", "Harbour"))),
            category("region", "region", "coast", "capital", "inland"),
            year("opened", "opening year", 1962, 2018),
            plural="branches",
        ),
        table(
            "clients", "client", 80,
            key("client_id"),
            label("client_name", "name", people()),
            Link("branch_id", "branches", "of", "branch"),
            category("occupation", "occupation", "engineer", "teacher", "nurse", "baker", "pilot"),
            money("income", "yearly income", 14_000, 120_000),
            maybe(measure("credit_score", "credit score", 310, 845)),
        ),
        table(
            "accounts", "account", 130,
            key("account_id"),
            Link("client_id", "clients", "of", "client"),
            coded("kind", "kind", {"CHK": "checking", "SAV": "savings", "BUS": "business"}),
            money("balance", "balance", 20, 60_000),
            date("opened_on", "opening date", "2010-01-01", "2023-06-30"),
        ),
        table(
            "loans", "loan", 110,
            key("loan_id"),
            Link("client_id", "clients", "taken out by", "client"),
            category("purpose", "purpose", "house", "car", "study", "business"),
            money("amount", "amount", 900, 180_000),
            measure("rate", "interest rate", 1, 12, digits=2, unit="percent"),
            measure("term_months", "term in months", 12, 240),
            coded("status", "status", {"A": "active", "P": "paid back", "L": "late"}),
        ),
    ),
)  # fmt: skip

FARM = Domain(
    "farm",
    (
        table(
            "farms", "farm", 18,
            key("farm_id"),
            label("farm_name", "name", words(LAST_NAMES, ("Farm", "Acres", "Meadow"))),
            category("county", "county", "Eastvale", "Highmoor", "Lakeside", "Westford"),
            measure("hectares", "area in hectares", 12, 640),
            coded("method", "farming method", {"O": "organic", "C": "conventional"}),
        ),
        table(
            "crops", "crop", 14,
            key("crop_id"),
            label(
                "crop_name", "name",
                words((
                    "wheat", "barley", "rye", "oats", "maize", "potato", "carrot", "onion",
                    "pea", "lentil", "flax", "hops", "beet", "spinach", "clover", "rapeseed",
                )),
            ),
            category("kind", "kind", "cereal", "vegetable", "industrial"),
            measure("growing_days", "growing time in days", 45, 210),
        ),
        table(
            "harvests", "harvest", 240,
            key("harvest_id"),
            Link("farm_id", "farms", "of", "farm"),
            Link("crop_id", "crops", "of", "crop"),
            date("harvested_on", "date", "2020-06-01", "2023-10-31"),
            measure("tonnes", "yield in tonnes", 1, 90, digits=1),
            coded("grade", "quality grade", {"1": "excellent", "2": "good", "3": "poor"}),
        ),
        table(
            "workers", "worker", 90,
            key("worker_id"),
            label("worker_name", "name", people()),
            Link("farm_id", "farms", "at", "farm"),
            category("job", "job", "driver", "picker", "mechanic", "manager"),
            money("hourly_pay", "hourly pay", 9, 38),
            year("hired", "year of hiring", 2004, 2023),
            maybe(measure("training_hours", "training time in hours", 2, 160)),
        ),
    ),
)  # fmt: skip

RESTAURANT = Domain(
    "restaurants",
    (
        table(
            "restaurants", "restaurant", 20,
            key("restaurant_id"),
            label("name", "name", words(("Blue", "Old", "Little", "Grand"), NOUNS)),
            category("cuisine", "cuisine", "Italian", "Indian", "Mexican", "Greek"),
            category("district", "district", "centre", "harbour", "old town", "station"),
            count("tables", "number of tables", 6, 48),
        ),
        table(
            "dishes", "dish", 120,
            key("dish_id"),
            label(
                "dish_name", "name",
                words(
                    ("Grilled", "Baked", "Smoked", "Spicy", "Chilled", "Stuffed"),
                    ("Aubergine", "Trout", "Chicken", "Pepper", "Lamb", "Mushroom", "Squash"),
                    ("Salad", "Stew", "Plate", "Soup"),
                ),
            ),
            Link("restaurant_id", "restaurants", "served at", "restaurant"),
            coded("course", "course", {"M": "main course", "S": "starter", "D": "dessert"}),
            money("price", "price", 4, 39),
            count("calories", "number of calories", 120, 1_400),
            plural="dishes",
        ),
        table(
            "critics", "critic", 24,
            key("critic_id"),
            label("critic_name", "name", people()),
            category("newspaper", "newspaper", "Daily Fork", "The Table", "Evening Plate"),
            year("since", "first year of writing", 1995, 2022),
        ),
        table(
            "reviews", "review", 220,
            key("review_id"),
            Link("restaurant_id", "restaurants", "of", "restaurant"),
            Link("critic_id", "critics", "by", "critic"),
            date("written_on", "date", "2021-01-01", "2023-12-31"),
            measure("points", "number of points", 1, 20),
            maybe(count("words", "number of words", 80, 1_200)),
        ),
    ),
)  # fmt: skip
