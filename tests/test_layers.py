"""Imports point down only, and siblings do not know each other."""

from __future__ import annotations

import ast
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "practicum"

# From the bottom up; names on one line are siblings and never import each other.
LAYERS = (
    {"core"},
    {"config"},
    {"store"},
    {"desktops"},
    {"envs", "policies", "rewards"},
    {"agents"},
    {"rollout"},
    {"data"},
    {"train", "evaluate"},
    {"adapters"},
    {"cli"},
)
HEIGHT = {name: height for height, names in enumerate(LAYERS) for name in names}
STANDARD_LIBRARY_ONLY = "core"


def imports_of(path: Path) -> set[str]:
    """Full names of the modules a file imports, wherever in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def package_of(module: str) -> str | None:
    parts = module.split(".")
    return parts[1] if parts[0] == "practicum" and len(parts) > 1 else None


def violations(source: Path) -> list[str]:
    found = []
    for path in sorted(source.rglob("*.py")):
        parts = path.relative_to(source).parts
        if len(parts) == 1:
            continue  # the package itself and __main__ stand above all layers
        own = parts[0]
        for module in sorted(imports_of(path)):
            other = package_of(module)
            if other is None or other == own or (own == "viewer" and other in ("store", "core")):
                continue
            if own not in HEIGHT or other not in HEIGHT or HEIGHT[other] >= HEIGHT[own]:
                found.append(f"{'/'.join(parts)} imports {module}")
    return found


def test_no_import_points_up() -> None:
    assert violations(SOURCE) == []


def test_an_upward_import_is_found(tmp_path: Path) -> None:
    for name, text in {
        "core/a.py": "from practicum.rollout import play",
        "envs/b.py": "import practicum.policies.replay",
        "rollout/c.py": "def f():\n    from practicum.cli import main",
        "agents/d.py": "from practicum.envs import registry",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert violations(tmp_path) == [
        "core/a.py imports practicum.rollout.play",
        "envs/b.py imports practicum.policies.replay",
        "rollout/c.py imports practicum.cli.main",
    ]


def test_core_needs_the_standard_library_only() -> None:
    import sys

    for path in (SOURCE / STANDARD_LIBRARY_ONLY).glob("*.py"):
        for module in imports_of(path):
            top = module.split(".")[0]
            assert top == "practicum" or top in sys.stdlib_module_names, f"{path.name}: {module}"
