"""Turns conversations into token ids, append-only: what was sampled is never tokenised again.

The pieces around messages are read off the chat template once, by rendering placeholder
conversations as text. A conversation then grows by the ids that were sampled and by the ids
of the piece that holds the next observation, so an episode is one sequence.

Only the template writes control tokens. The text of a message is text: `<|im_end|>` in an
observation becomes ordinary characters, where tokenising the rendered conversation as one
string would let the world (or a web page shown by it) end a turn or speak as the system.
For all other texts the ids are those that the template's own tokenisation gives, which is
checked when a renderer is made. Answers are kept as sampled: a template that strips thoughts
from earlier answers (Qwen3) is not followed in that.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

from practicum.core.agent import Prompt
from practicum.core.errors import ConfigError
from practicum.core.message import Image, Message

Ids = tuple[int, ...]

RUNS_REMEMBERED = 2048
"""Texts whose ids are kept: instructions, first observations of a group, usual replies."""

_DATE = "26 Jul 2024"
"""What Llama's templates are told is today, so that ids are the same tomorrow."""

_SLOTS = ("Qsystemq", "Qfirstq", "Qanswerq", "Qlaterq")
_SYSTEM, _FIRST, _ANSWER, _LATER = _SLOTS
_TRIMS: tuple[Callable[[str], str], ...] = (
    lambda text: text,
    lambda text: text.strip(),
    lambda text: text.strip("\n"),
)
"""What templates are known to do to a message's text."""
_JINJA_TRIMS = ("", ".strip()", ".strip('\\n')")


@dataclass(frozen=True, slots=True)
class ExtendableTemplate:
    """A chat template under which a conversation only ever grows at its end."""

    template: str
    """Jinja over `messages`; a message of a `tool` stands where one of the user would."""
    answer_opener: str
    """What stands between a message and the answer to it."""
    answer_end: str
    """The token that ends an answer, as text."""


class PictureIds(Protocol):
    """What a model reads in place of a picture."""

    def ids(self, image: Image) -> Ids:
        """The ids of one picture, with those that begin and end it."""
        ...


class Renderer:
    """The ids of conversations under one tokenizer and its chat template.

    With `pictures`, those of a message stand before its text.
    """

    stop_ids: frozenset[int]
    """Ids that end an answer."""

    @classmethod
    def load(cls, path: Path) -> Renderer:
        """Read the tokenizer files of a Hugging Face folder."""
        if not path.is_dir():
            raise ConfigError(f"{path} is no folder: give one with tokenizer files in it")
        try:
            from transformers import AutoTokenizer
        except ImportError as error:
            raise ConfigError(
                "reading a tokenizer needs transformers: pip install 'practicum[train]'"
            ) from error
        try:
            tokenizer = AutoTokenizer.from_pretrained(path, local_files_only=True)
        except (OSError, ValueError) as error:
            raise ConfigError(f"{path} holds no tokenizer that can be read: {error}") from error
        return cls(tokenizer, stop_ids=_generation_stop_ids(path))

    def __init__(
        self, tokenizer: Any, stop_ids: Iterable[int] = (), pictures: PictureIds | None = None
    ) -> None:
        """Read the pieces off the template and check them; `stop_ids` are further ends."""
        self._pictures = pictures
        self._template = _Template(tokenizer)
        self._encoder = _Encoder(tokenizer)
        self._openings = {
            has_system: self._compile(text) for has_system, text in self._template.openings.items()
        }
        later = self._compile(self._template.later)
        if not isinstance(later[0], int):
            raise _unusable(f"it ends an answer with {later[0][0]!r} and not with a control token")
        self._later = later
        self.end_of_turn_id = later[0]
        eos = tokenizer.eos_token_id
        self.stop_ids = frozenset(
            [self.end_of_turn_id, *stop_ids, *([] if eos is None else [int(eos)])]
        )
        self._check()

    def prompt_ids(self, prompt: Prompt) -> Ids:
        """The ids to sample the next answer after.

        What the last answer was sampled after and its own ids are taken as they are; only
        the new observation is tokenised. Without recorded ids all messages are rendered.
        """
        history = prompt.situation.history
        if history:
            last = history[-1].completion
            if last.prompt_token_ids is not None and last.token_ids is not None:
                asked = self._fill(self._later, {_LATER: self._said(prompt.messages[-1], "user")})
                # A cut answer is closed by us; a complete one brings its own end.
                is_closed = last.token_ids[-1:] == (self.end_of_turn_id,)
                return last.prompt_token_ids + last.token_ids + asked[is_closed:]
        ids, _ = self.conversation_ids(prompt.messages)
        return ids

    def answer_ids(self, text: str) -> Ids:
        """The ids of a written answer, with the token that ends it."""
        trimmed = self._template.trims[_ANSWER](text)
        return (*self._encoder.encode(trimmed), self.end_of_turn_id)

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of an answer, without the token that ended it."""
        ids = list(token_ids)
        if ids and ids[-1] in self.stop_ids:
            ids.pop()
        return self._encoder.decode(ids)

    def token_text(self, token_id: int) -> str:
        """The text of a single token; of a control token, its name."""
        return self._encoder.decode([token_id])

    def conversation_ids(self, messages: Sequence[Message]) -> tuple[Ids, tuple[bool, ...]]:
        """The ids of a conversation, and which of them answers are made of, ends included.

        After a last message of the user the ids lead up to the answer to it.
        """
        has_system = bool(messages) and messages[0].role == "system"
        first = 1 if has_system else 0
        if len(messages) <= first:
            raise ConfigError("a conversation needs a message of the user; this one has none")
        opening = {_FIRST: self._said(messages[first], "user")}
        if has_system:
            opening[_SYSTEM] = self._said(messages[0], "system")
        ids = list(self._fill(self._openings[has_system], opening))
        is_answer = [False] * len(ids)
        for index, message in enumerate(messages[first + 1 :]):
            if index % 2 == 0:
                added = self.answer_ids(self._said(message, "assistant").text)
            else:
                added = self._fill(self._later, {_LATER: self._said(message, "user")})[1:]
            ids += added
            is_answer += [index % 2 == 0] * len(added)
        return tuple(ids), tuple(is_answer)

    def as_jinja(self) -> ExtendableTemplate:
        """What this renderer writes, for frameworks that render with a template of their own."""
        return self._template.as_jinja(self._encoder.decode([self.end_of_turn_id]))

    def _compile(self, text: str) -> list[int | tuple[str, ...]]:
        """Split a piece of the template into control ids and runs of text with slots.

        A run is what stands between two control tokens: tokenised whole, it gives the ids
        it has inside the rendered conversation.
        """
        parts: list[int | tuple[str, ...]] = []
        for piece in self._encoder.split(text):
            if isinstance(piece, int):
                parts.append(piece)
            elif piece:
                parts.append(tuple(p for p in re.split(f"({'|'.join(_SLOTS)})", piece) if p))
        return parts

    def _fill(self, parts: Sequence[int | tuple[str, ...]], messages: Mapping[str, Message]) -> Ids:
        ids: list[int] = []
        for part in parts:
            if isinstance(part, int):
                ids.append(part)
                continue
            run = ""
            for piece in part:
                message = messages.get(piece)
                if message is not None and message.images:
                    assert self._pictures is not None
                    ids += self._encoder.encode(run)
                    for image in message.images:
                        ids += self._pictures.ids(image)
                    run = ""
                run += piece if message is None else self._template.trims[piece](message.text)
            ids += self._encoder.encode(run)
        return tuple(ids)

    def _said(self, message: Message, role: str) -> Message:
        if message.role != role:
            raise ConfigError(
                f"a message of the {message.role} stands where one of the {role} is due: after an "
                "optional system message, user and assistant take turns, and the user begins"
            )
        if message.images and (self._pictures is None or role != "user"):
            raise ConfigError("a message holds an image, and this policy reads text only")
        return message

    def _check(self) -> None:
        """Compare with the template's own tokenisation on a conversation of four turns."""
        for has_system in (True, False):
            messages = _sample_conversation(has_system)
            # Where a prompt opens a thought, earlier answers lack it in the template alone.
            length = 1 + has_system if self._template.opens_thought else len(messages)
            ours, _ = self.conversation_ids(messages[:length])
            theirs = self._template.ids(messages[:length])
            if ours == theirs:
                continue
            pairs = enumerate(zip(ours, theirs, strict=False))
            at = next((i for i, (a, b) in pairs if a != b), min(len(ours), len(theirs)))
            raise _unusable(
                f"after {self._encoder.decode(theirs[:at])[-40:]!r} its tokens are "
                f"{list(theirs[at : at + 4])} where the pieces on their own give "
                f"{list(ours[at : at + 4])}"
            )


class _Template:
    """The texts that a chat template puts around messages."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        if not tokenizer.chat_template:
            raise ConfigError(
                "this tokenizer has no chat template: use that of an instruction-tuned model "
                "or put a chat_template.jinja beside the tokenizer files"
            )
        self.openings: dict[bool, str] = {}
        """What stands before the first answer, with and without a system message, with slots."""
        self.later = ""
        """What stands between two answers, from the end of the first, with one slot."""
        self.opens_thought = False
        """The prompt for an answer says more than stands before an earlier answer."""
        self.trims = dict.fromkeys(_SLOTS, _TRIMS[0])
        for has_system in (True, False):
            self._read(has_system)
        self.trims = {slot: self._find_trim(slot) for slot in _SLOTS}
        self._check()

    def text(self, messages: Sequence[Message]) -> str:
        """Render a conversation up to the next answer."""
        return str(self._render(messages, tokenize=False))

    def ids(self, messages: Sequence[Message]) -> Ids:
        """Render and tokenise as one string, as a chat server does."""
        return tuple(self._render(messages, tokenize=True, return_dict=False))

    def _render(self, messages: Sequence[Message], **options: Any) -> Any:
        from jinja2 import TemplateError

        try:
            return self._tokenizer.apply_chat_template(
                [{"role": m.role, "content": m.text} for m in messages],
                add_generation_prompt=True,
                date_string=_DATE,
                **options,
            )
        except TemplateError as error:
            roles = ", ".join(m.role for m in messages)
            raise _unusable(f"it refuses a conversation of {roles}: {error}") from error

    def _read(self, has_system: bool) -> None:
        start = _slot_messages(has_system)
        opening = self.text(start[:-2])
        whole = self.text(start)
        for slot in [m.text for m in start]:
            if whole.count(slot) != 1:
                raise _unusable(f"it writes a message {whole.count(slot)} times and not once")
        head, _, later = whole.partition(_ANSWER)
        if not opening.startswith(head):
            raise _unusable(
                "what it writes before an answer changes once the answer is there: "
                f"{opening[-60:]!r} becomes {head[-60:]!r}"
            )
        if self.later not in ("", later):
            raise _unusable("what follows an answer depends on whether there is a system message")
        self.openings[has_system] = opening
        self.later = later
        self.opens_thought = len(opening) > len(head)

    def _find_trim(self, slot: str) -> Callable[[str], str]:
        padded = f"\n \n{slot}\n \n"
        messages = [
            Message(m.role, padded if m.text == slot else m.text) for m in _slot_messages(True)
        ]
        plain, changed = self.text(_slot_messages(True)), self.text(messages)
        for trim in _TRIMS:
            if plain.replace(slot, trim(padded)) == changed:
                return trim
        raise _unusable(f"it rewrites the text of a message: {padded!r} stands as {changed!r}")

    def _check(self) -> None:
        """See that a longer conversation is made of the same pieces."""
        opener = self._opener()
        for has_system in (True, False):
            messages = _sample_conversation(has_system)
            system = self.trims[_SYSTEM](messages[0].text)
            first, *rest = messages[has_system:]
            text = self.openings[has_system].replace(_SYSTEM, system)
            text = text.replace(_FIRST, self.trims[_FIRST](first.text))
            for answer, later in zip(rest[::2], rest[1::2], strict=True):
                text = text.removesuffix(opener) + self.trims[_ANSWER](answer.text)
                text += self.later.replace(_LATER, self.trims[_LATER](later.text))
            if text != self.text(messages):
                raise _unusable("it writes earlier messages differently as a conversation grows")

    def as_jinja(self, answer_end: str) -> ExtendableTemplate:
        opener = self.later.partition(_LATER)[2]
        if any(not text.endswith(opener) for text in self.openings.values()):
            raise _unusable("the first answer is asked for in other words than later ones")
        first, first_alone, later = (
            self._jinja(text) for text in (self.openings[True], self.openings[False], self.later)
        )
        return ExtendableTemplate(
            "{%- for message in messages -%}"
            "{%- if message.role == 'system' -%}"
            "{%- elif message.role == 'assistant' -%}"
            f"{{{{- {self._jinja_slot(_ANSWER, 'message.content')} -}}}}"
            # Frameworks try whether calls are written at all; the answer is what we have.
            "{%- for call in message.tool_calls or [] -%}{{- call.function | tojson -}}"
            "{%- endfor -%}"
            f"{{%- if loop.last -%}}{{{{- {_quoted(answer_end)} -}}}}{{%- endif -%}}"
            f"{{%- elif loop.first -%}}{first_alone}"
            "{%- elif loop.index0 == 1 and messages[0].role == 'system' -%}"
            f"{first}{{%- else -%}}{later}{{%- endif -%}}{{%- endfor -%}}",
            opener,
            answer_end,
        )

    def _jinja(self, text: str) -> str:
        """A piece as an expression, with the messages in its slots."""
        sources = {_SYSTEM: "messages[0].content", _FIRST: "message.content"}
        sources[_LATER] = "message.content"
        parts = [part for part in re.split(f"({'|'.join(_SLOTS)})", text) if part]
        written = [
            self._jinja_slot(part, sources[part]) if part in sources else _quoted(part)
            for part in parts
        ]
        return f"{{{{- {' ~ '.join(written)} -}}}}"

    def _jinja_slot(self, slot: str, source: str) -> str:
        return f"{source}{_JINJA_TRIMS[_TRIMS.index(self.trims[slot])]}"

    def _opener(self) -> str:
        """What the prompt for an answer says beyond what stands before an earlier answer."""
        head, _, _ = self.text(_slot_messages(True)).partition(_ANSWER)
        return self.openings[True].removeprefix(head)


class _Encoder:
    """A tokenizer for which text is text: special tokens in it are ordinary characters."""

    def __init__(self, tokenizer: Any) -> None:
        backend = getattr(tokenizer, "backend_tokenizer", None)
        if backend is None:
            raise ConfigError(
                f"{type(tokenizer).__name__} is no fast tokenizer: give a folder with a "
                "tokenizer.json"
            )
        # A copy: the settings below would change what the caller's tokenizer does.
        self._plain = type(backend).from_str(backend.to_str())
        self._plain.encode_special_tokens = True
        self._plain.no_truncation()
        self._plain.no_padding()
        self._controls = {
            str(token): int(token_id)
            for token_id, token in tokenizer.added_tokens_decoder.items()
            if token.special
        }
        longest_first = sorted(self._controls, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")
        self.encode = lru_cache(maxsize=RUNS_REMEMBERED)(self._encode)

    def _encode(self, text: str) -> Ids:
        return tuple(self._plain.encode(text, add_special_tokens=False).ids)

    def decode(self, ids: Sequence[int]) -> str:
        """Write ids as text; control tokens inside are shown."""
        return str(self._plain.decode(list(ids), skip_special_tokens=False))

    def split(self, text: str) -> list[int | str]:
        """Cut a text written by the template into control ids and the texts between them."""
        parts: list[int | str] = []
        end = 0
        for mark in self._pattern.finditer(text):
            parts += [text[end : mark.start()], self._controls[mark[0]]]
            end = mark.end()
        return [*parts, text[end:]]


def _quoted(text: str) -> str:
    """A string as a template writes it."""
    return json.dumps(text, ensure_ascii=False)


def _slot_messages(has_system: bool) -> list[Message]:
    talk = [Message("user", _FIRST), Message("assistant", _ANSWER), Message("user", _LATER)]
    return [Message("system", _SYSTEM), *talk] if has_system else talk


def _sample_conversation(has_system: bool) -> list[Message]:
    """Texts of the kind that environments and agents write, each role's more than once."""
    talk = [Message("user", "Goal: craft 2 oak planks.\n\nYou have: 1 log.")]
    for number in range(3):
        talk.append(Message("assistant", f"Thought: I need {number} é.\nAction: get 1 log"))
        talk.append(Message("user", f"\n Got {number} log, ok!\n"))
    return [Message("system", "You play.\n\n- get ITEM: take it"), *talk] if has_system else talk


def _generation_stop_ids(path: Path) -> list[int]:
    """Further ends of an answer that the model's own sampling settings name."""
    try:
        ends = json.loads((path / "generation_config.json").read_text()).get("eos_token_id")
    except FileNotFoundError:
        return []
    if ends is None:
        return []
    return [int(end) for end in (ends if isinstance(ends, list) else [ends])]


def _unusable(why: str) -> ConfigError:
    return ConfigError(f"this chat template cannot be extended in token space: {why}")
