"""The base model's corpus, tokenizer and twin of Qwen3."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from practicum.agents.chat import ChatAgent  # noqa: E402
from practicum.agents.react import ReactFormat  # noqa: E402
from practicum.core.agent import Sampling  # noqa: E402
from practicum.envs.text.textcraft.env import create  # noqa: E402
from practicum.envs.text.textcraft.tasks import make_task  # noqa: E402
from practicum.policies.replay import ReplayPolicy  # noqa: E402
from tools.base_model import arena  # noqa: E402
from tools.base_model.batches import encode, pad  # noqa: E402
from tools.base_model.corpus import EXPERT, RECIPES, SYSTEM_TEXT, make_documents, play  # noqa: E402
from tools.base_model.model import CraftModel, Size, save  # noqa: E402
from tools.base_model.tokenizer import build_tokenizer  # noqa: E402
from tools.base_model.worlds import Shape, check_apart, forbidden_names, make_world  # noqa: E402

TOKENIZER = build_tokenizer()
TINY = Size(width=32, num_layers=2, num_heads=2, num_kv_heads=1, head_width=16, mlp_width=48)


def test_equal_seeds_give_equal_documents() -> None:
    first = list(make_documents(RECIPES["mixed"], seed=3))
    assert first
    assert first == list(make_documents(RECIPES["mixed"], seed=3))


def test_no_world_uses_a_real_name() -> None:
    for seed in range(40):
        world = make_world(seed, Shape())
        check_apart(world)
        assert not world.items & forbidden_names()


def test_the_expert_crafts_every_goal_of_an_invented_world() -> None:
    for seed in range(10):
        world = make_world(seed, Shape())
        for goal in world.goals[:4]:
            conversation = play(make_task(world, goal), world, EXPERT, Random(0))
            assert "Action: craft" in conversation[-1][1]
            assert goal.replace("_", " ") in conversation[-1][1].rpartition("Action:")[2]


def test_documents_open_with_the_instructions_of_the_agent() -> None:
    agent = ChatAgent(create(), ReactFormat(), ReplayPolicy([]), Sampling())
    assert agent.system == SYSTEM_TEXT


def test_any_text_comes_back_exactly() -> None:
    rng = Random(0)
    ranges = ((32, 127), (128, 0xD7FF), (0xE000, 0x10FFFF))
    for _ in range(300):
        text = "".join(chr(rng.randrange(*rng.choice(ranges))) for _ in range(rng.randrange(40)))
        ids = TOKENIZER.encode(text, add_special_tokens=False)
        assert TOKENIZER.decode(ids) == text


def test_instructions_are_two_tokens() -> None:
    assert len(TOKENIZER.encode(SYSTEM_TEXT, add_special_tokens=False)) == 2


def test_the_chat_template_writes_what_documents_hold() -> None:
    conversation = next(make_documents(RECIPES["mixed"], seed=1))
    messages = [{"role": "system", "content": SYSTEM_TEXT}]
    messages += [{"role": role, "content": text} for role, text in conversation]
    text = TOKENIZER.apply_chat_template(messages, tokenize=False)
    ids = TOKENIZER.encode(text, add_special_tokens=False)
    document = encode(conversation)
    assert document.ids.tolist() == ids[: len(document.ids)]
    answers = [text for role, text in conversation if role == "assistant"]
    shown = TOKENIZER.decode(document.ids[document.is_answer])
    assert shown == "".join(f"{answer}<|end|>" for answer in answers)


def test_transformers_computes_the_same_from_a_saved_folder(tmp_path: Path) -> None:
    torch.manual_seed(0)
    save(CraftModel(TINY, len(TOKENIZER)), TOKENIZER, tmp_path)
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= {
        path.name for path in tmp_path.iterdir()
    }


def test_log_probabilities_of_play_are_those_of_a_forward_pass(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(arena, "MAX_ANSWER", 12)
    torch.manual_seed(0)
    model = CraftModel(TINY, len(TOKENIZER))
    world = make_world(5, Shape())
    tasks = [(make_task(world, goal), world) for goal in world.goals[:3]]
    for played in arena.play_all(model, TOKENIZER, tasks, seed=1):
        ids = torch.tensor([played.ids])
        with torch.no_grad():
            scores = torch.log_softmax(model(ids)[0, :-1], -1).gather(1, ids[0, 1:, None])[:, 0]
        sampled = torch.tensor(played.is_sampled[1:])
        assert sampled.any()
        recorded = torch.tensor(played.logprobs[1:])
        assert torch.allclose(scores[sampled], recorded[sampled], atol=1e-4)


def test_padding_keeps_every_document() -> None:
    documents = [encode(conversation) for conversation in make_documents(RECIPES["expert"], 2)]
    ids, is_answer = pad(documents)
    assert ids.shape == is_answer.shape
    assert ids.shape[1] % 64 == 0
    for row, document in enumerate(documents):
        assert ids[row, : len(document.ids)].tolist() == document.ids.tolist()
