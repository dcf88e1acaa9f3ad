"""The base model's corpus, tokenizer and twin of Qwen3."""

from __future__ import annotations

from functools import partial
from itertools import islice
from pathlib import Path
from random import Random

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from practicum.agents.chat import ChatAgent  # noqa: E402
from practicum.agents.react import ReactFormat  # noqa: E402
from practicum.core.agent import Sampling  # noqa: E402
from practicum.envs.text.textcraft.env import create  # noqa: E402
from practicum.envs.text.textcraft.invented import (  # noqa: E402
    check_apart,
    forbidden_names,
    make_world,
    real_words,
)
from practicum.envs.text.textcraft.invented_tasks import make_tasks, misleads  # noqa: E402
from practicum.envs.text.textcraft.tasks import make_task  # noqa: E402
from practicum.policies.replay import ReplayPolicy  # noqa: E402
from tools.base_model import arena  # noqa: E402
from tools.base_model.batches import Corpus, encode, pad  # noqa: E402
from tools.base_model.corpus import (  # noqa: E402
    EXPERT,
    LOOK,
    RECIPES,
    SYSTEM_TEXT,
    Crafter,
    make_documents,
    play,
)
from tools.base_model.model import CraftModel, Size, save  # noqa: E402
from tools.base_model.shelves import fill_shelves, walk  # noqa: E402
from tools.base_model.tokenizer import build_tokenizer  # noqa: E402
from tools.base_model.updates import (  # noqa: E402
    Optimisers,
    Update,
    answer_loss,
    orthogonalise,
)

TOKENIZER = build_tokenizer()
PAD_ID = int(str(TOKENIZER.pad_token_id))
TINY = Size(width=32, num_layers=2, num_heads=2, num_kv_heads=1, head_width=16, mlp_width=48)


def test_equal_seeds_give_equal_documents() -> None:
    first = list(make_documents(RECIPES["mixed"], seed=3))
    assert first
    assert first == list(make_documents(RECIPES["mixed"], seed=3))


def test_no_world_uses_a_real_name() -> None:
    for seed in range(40):
        world = make_world(seed)
        check_apart(world)
        assert not world.items & forbidden_names()


def test_some_names_are_one_word_and_some_hold_others() -> None:
    names = {name for seed in range(20) for name in make_world(seed).items}
    real = {name for name in names if "_" not in name and name in real_words()}
    assert real
    assert not real & forbidden_names()
    assert any(name.partition("_")[2] in names for name in names)


def test_the_expert_crafts_every_goal_whose_names_do_not_mislead() -> None:
    for seed in range(10):
        world = make_world(seed)
        for goal in world.goals[:4]:
            task = make_task(world, goal)
            if misleads(task, world):
                continue
            conversation = play(task, world, EXPERT, Random(0))
            assert "Action: craft" in conversation[-1][1]
            assert goal.replace("_", " ") in conversation[-1][1].rpartition("Action:")[2]


def _actions(conversation: list[tuple[str, str]]) -> list[str]:
    return [text.rpartition("Action: ")[2] for role, text in conversation if role == "assistant"]


def test_who_looks_again_errs_in_nothing_and_says_so() -> None:
    always = Crafter(1.0, misreads=1.0, forgets=1.0, strays=1.0, looks=1.0)
    for task, world in make_tasks(seed=3):
        looked = play(task, world, always, Random(0))
        assert _actions(looked) == _actions(play(task, world, EXPERT, Random(0)))
        assert all(LOOK in text for role, text in looked if role == "assistant")


def test_who_does_not_notice_repeats_what_was_refused() -> None:
    never = Crafter(1.0, misreads=1.0, notices=0.0)
    played = [play(task, world, never, Random(0)) for task, world in make_tasks(seed=3)]
    refused = 0
    for conversation in played:
        actions = _actions(conversation)
        replies = [text for role, text in conversation if role == "user"][1:]
        for i, reply in enumerate(replies):
            if reply.startswith("Could not"):
                refused += 1
                assert actions[i + 1] == actions[i]
    assert refused


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
    world = make_world(5)
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


def _corpus() -> Corpus:
    return Corpus.join(
        [encode(doc) for seed in range(6) for doc in make_documents(RECIPES["expert"], seed)]
    )


def test_a_corpus_comes_back_from_its_file(tmp_path: Path) -> None:
    corpus = _corpus()
    corpus.save(tmp_path / "corpus.npz")
    read = Corpus.load(tmp_path / "corpus.npz")
    assert (read.ids == corpus.ids).all()
    assert (read.lengths == corpus.lengths).all()
    assert read.num_too_long == corpus.num_too_long


def test_shelves_hold_every_document_and_a_pass_repeats_none() -> None:
    corpus = _corpus()
    shelves = fill_shelves(corpus, PAD_ID, 1024, "cpu")
    assert sum(int((shelf.ids != PAD_ID).sum()) for shelf in shelves) == len(corpus.ids)
    assert sum(int(shelf.is_answer.sum()) for shelf in shelves) == corpus.is_answer.sum()
    num_batches = sum(len(shelf.ids) // shelf.num_rows for shelf in shelves)
    drawn = [(n, i) for n, rows in islice(walk(shelves, 0), num_batches) for i in rows.tolist()]
    assert len(drawn) == len(set(drawn))


@pytest.mark.parametrize("muon_lr", [None, 0.01])
def test_updates_lower_the_loss_and_a_zero_rate_changes_nothing(muon_lr: float | None) -> None:
    torch.manual_seed(0)
    model = CraftModel(TINY, len(TOKENIZER))
    shelf = fill_shelves(_corpus(), PAD_ID, 512, "cpu", lengths=(128,))[0]
    optimisers, total = Optimisers(model, 3e-3, muon_lr), torch.zeros(())
    update = Update(model, optimisers, shelf, total, partial(answer_loss, pad=PAD_ID))
    rows = torch.arange(shelf.num_rows)
    before = [p.clone() for p in model.parameters()]
    update(rows)
    assert all(torch.equal(p, q) for p, q in zip(model.parameters(), before, strict=True))
    first = total.item()
    optimisers.set_rate(1.0)
    for _ in range(8):
        total.zero_()
        update(rows)
    assert total.item() < first - 0.3


def test_padding_costs_nothing() -> None:
    torch.manual_seed(0)
    model = CraftModel(TINY, len(TOKENIZER))
    ids, is_answer = pad([encode(next(make_documents(RECIPES["expert"], 1)))])
    wider = torch.nn.functional.pad(ids, (0, 64), value=PAD_ID)
    wide_mask = torch.nn.functional.pad(is_answer, (0, 64))
    narrow = answer_loss(model, ids, is_answer, PAD_ID)
    wide = answer_loss(model, wider, wide_mask, PAD_ID)
    assert torch.allclose(torch.stack(narrow), torch.stack(wide), atol=1e-5)


def test_an_orthogonal_direction_has_singular_values_near_one() -> None:
    torch.manual_seed(0)
    values = torch.linalg.svdvals(orthogonalise(torch.randn(3, 24, 8)))
    assert values.min() > 0.5
    assert values.max() < 1.5
