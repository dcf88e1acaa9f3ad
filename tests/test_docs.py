"""The documentation builds without a warning, and examples run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_docs_build_strictly(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    commands = (tmp_path / "commands" / "index.html").read_text()
    assert "practicum eval" in commands
    assert "--max-turns" in commands


def test_links_in_the_readme_lead_somewhere() -> None:
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "docs/decisions/README.md"]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_tree_in_the_readme_exists() -> None:
    text = (ROOT / "README.md").read_text()
    tree = text.split("src/practicum/\n", 1)[1].split("```", 1)[0]
    for line in tree.splitlines():
        name = line.split()[0]
        if line.startswith("  ") and not line.startswith("    "):
            assert (ROOT / "src/practicum" / name).exists(), name


def test_the_example_plays_a_game() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "examples/watch_episode.py"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "ended: done, reward 1" in done.stdout
