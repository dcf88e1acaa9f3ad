"""What training can be told: the model, demonstrations, the optimiser, the RL loop."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import Field, model_validator

from practicum.config.algorithms import AlgorithmConfig, GrpoConfig
from practicum.config.base import StrictConfig
from practicum.config.eval import LimitsConfig, SamplingConfig
from practicum.config.mixture import (
    CurriculumConfig,
    Horizon,
    MixtureConfig,
    Names,
    PartConfig,
)

TrackerName = Literal["tensorboard", "wandb"]


class LoraConfig(StrictConfig):
    """Train low-rank adapters instead of all weights; exports have them merged."""

    rank: int = Field(16, ge=1)
    alpha: int = Field(32, ge=1)
    targets: list[str] | Literal["all-linear"] = "all-linear"
    """Names of the layers that get adapters."""


class ModelConfig(StrictConfig):
    """The weights, and where they compute."""

    path: str
    """A folder in Hugging Face format, or the name of a model that ships with the package."""
    device: str = "auto"
    """`auto`: a GPU if there is one."""
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    """`auto`: bfloat16 on a GPU (with float32 master weights), float32 on a CPU."""
    max_context: int = Field(2048, ge=16)
    """Tokens of one episode, prompt and answers together."""
    lora: LoraConfig | None = None
    gradient_checkpointing: bool = False
    """Compute activations again in the backward pass: slower, much less memory."""
    compile: bool = False
    """Fuse operations with torch.compile, on a GPU: a minute to start, faster then."""


class SamplerConfig(StrictConfig):
    """The shape of the sampler."""

    slots: int = Field(128, ge=1)
    """Episodes under way at once."""
    prefill_rows: int = Field(2048, ge=16)
    """Prompt tokens fed per step, at most."""
    cuda_graphs: bool = True


class OptimizerConfig(StrictConfig):
    """AdamW and its schedule."""

    learning_rate: float = Field(1e-5, gt=0)
    beta1: float = Field(0.9, ge=0, lt=1)
    beta2: float = Field(0.95, ge=0, lt=1)
    weight_decay: float = Field(0.0, ge=0)
    max_grad_norm: float = Field(1.0, gt=0)
    warmup_updates: int = Field(0, ge=0)
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    """After warm-up, down to a tenth of the rate at the last update."""


class PackingConfig(StrictConfig):
    """How sequences become micro-batches."""

    pack_tokens: int = Field(8192, ge=16)
    """Tokens of one micro-batch; sequences are laid end to end in it and never see each other."""
    fixed_shapes: Literal["auto"] | bool = "auto"
    """Pad every micro-batch to `pack_tokens`, so that nothing is compiled twice; on a GPU."""


class CheckpointConfig(StrictConfig):
    """What is written to come back to."""

    every: int = Field(10, ge=1)
    """Updates between checkpoints; the last update always has one."""
    keep: int = Field(1, ge=1)
    """Newest checkpoints that are kept."""


class HeldOutConfig(StrictConfig):
    """Evaluation before, during and after training."""

    panel: str = "test"
    samples: int = Field(1, ge=1)
    max_tasks: int | None = Field(None, ge=1)
    every: int | None = Field(None, ge=1)
    """Updates between evaluations on the way; unset: only before and after."""
    temperature: float = Field(1.0, ge=0, le=10)
    seed: int = Field(0, ge=0)
    max_turns: int | None = Field(None, ge=1)
    max_repeated_refusals: int | None = Field(None, ge=2)
    """Both as in `limits`, which is for training episodes; unset: judged over the whole horizon."""
    before: bool = True
    """Evaluate before training, so that the gain can be told, paired."""


class SlipsConfig(StrictConfig):
    """Turns at which another script plays in the expert's place, so that recoveries are shown."""

    rate: float = Field(gt=0, lt=1)
    """Of the turns."""
    script: str = "random"
    """Whose actions these are: a script of the environment."""


class DemonstrationsConfig(StrictConfig):
    """Where the conversations of supervised training come from."""

    source: Literal["expert", "table", "run"] = "expert"
    """`expert`: the environment's expert plays; `table`: read `path`; `run`: the successes among
    the episodes of the run folder `path`, by the token ids that were sampled."""
    panel: str | Names = "train"
    """One panel or several."""
    difficulties: Names | None = None
    """Only tasks of these, as in `depth 1`; unset: all."""
    max_tasks: int | None = Field(None, ge=1)
    """Take this many tasks of the panel, drawn by the run's seed."""
    variants: int = Field(1, ge=1)
    """Prompt variants per task, where the environment has them."""
    path: str | None = None
    """A JSONL table or a run folder."""
    per_task: int = Field(1, ge=1)
    """Successes of a task that are learned from, no two alike, for `source: run`."""
    longer: Literal["refuse", "skip"] = "refuse"
    """What to do with demonstrations over `model.max_context`: none is ever cut."""
    script: str = "expert"
    """Which of the environment's programmed players is learned from."""
    turns: Literal["all", "accepted"] = "all"
    """`accepted`: no loss on answers the world refused or that missed the format."""
    slips: SlipsConfig | None = None
    """Mistakes in the expert's play, without a loss on them: what follows shows a way back."""
    thoughts: float = Field(1.0, ge=0, le=1)
    """The share of the games whose player says what it thinks; the others show actions alone."""
    workers: int = Field(1, ge=1)
    """Processes that play the games at once; what is learned from is the same with any number."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.source == "expert") != (self.path is None):
            raise ValueError("demonstrations.path belongs to demonstrations.source=table or run")
        owners = {
            "expert": (
                "script",
                "slips",
                "thoughts",
                "workers",
                "panel",
                "difficulties",
                "max_tasks",
                "variants",
            ),
            "run": ("per_task",),
        }
        for owner, names in owners.items():
            for name in names if self.source != owner else ():
                if getattr(self, name) != type(self).model_fields[name].default:
                    raise ValueError(
                        f"demonstrations.{name} belongs to demonstrations.source={owner}"
                    )
        return self


class TrainingConfig(StrictConfig):
    """What supervised training and RL have in common."""

    env: str | None = None
    options: dict[str, Any] = Field(default_factory=dict)
    """Settings of the environment itself."""
    mixture: MixtureConfig | None = None
    """Several environments in place of `env`."""
    format: str = "react"
    """The action format."""
    model: ModelConfig
    seed: int = Field(0, ge=0)
    optimizer: OptimizerConfig = OptimizerConfig()
    packing: PackingConfig = PackingConfig()
    sampler: SamplerConfig = SamplerConfig()
    sampling: SamplingConfig = SamplingConfig()
    limits: LimitsConfig = LimitsConfig()
    evaluate: HeldOutConfig | None = HeldOutConfig()
    """Set to null to train without evaluation."""
    checkpoints: CheckpointConfig = CheckpointConfig()
    trackers: list[TrackerName] = Field(default_factory=list)
    threads: int | None = Field(None, ge=1)
    """CPU threads of torch; unset: its own choice."""

    def parts(self) -> dict[str, PartConfig]:
        """What is played, by name: the one environment, or those of the mixture."""
        if self.mixture is None:
            assert self.env is not None
            return {self.env: self._only_part().model_copy(update={"env": self.env})}
        return {
            name: part.model_copy(update={"env": part.env or name})
            for name, part in self.mixture.envs.items()
        }

    def _only_part(self) -> PartConfig:
        raise NotImplementedError

    def _of_one_env(self) -> dict[str, tuple[Any, Any]]:
        """Settings that belong to one environment, with their defaults."""
        return {"options": (self.options, {})}

    @model_validator(mode="after")
    def _check_parts(self) -> Self:
        if (self.env is None) == (self.mixture is None):
            raise ValueError("name one env, or several under mixture.envs: one of the two")
        if self.mixture is not None:
            for key, (value, default) in self._of_one_env().items():
                if value != default:
                    raise ValueError(
                        f"{key} belongs to one environment: with a mixture, write "
                        f"mixture.envs.NAME.{key.rpartition('.')[2]}"
                    )
        for name, part in self.parts().items():
            if part.horizon and (part.limits or self.limits).max_turns is not None:
                raise ValueError(
                    f"limits.max_turns and horizon of {name} say the same thing: leave one out"
                )
        return self

    @model_validator(mode="after")
    def _check_packing(self) -> Self:
        if self.packing.pack_tokens < self.model.max_context:
            raise ValueError(
                f"packing.pack_tokens ({self.packing.pack_tokens}) must hold the longest episode "
                f"(model.max_context, {self.model.max_context})"
            )
        return self


class SftConfig(TrainingConfig):
    """Supervised training on demonstrations."""

    demonstrations: DemonstrationsConfig = DemonstrationsConfig()
    epochs: int = Field(1, ge=1)
    batch_size: int = Field(16, ge=1)
    """Conversations per update."""
    max_updates: int | None = Field(None, ge=1)
    """Stop here, in whatever epoch."""

    def _only_part(self) -> PartConfig:
        shown = self.demonstrations
        return PartConfig(
            options=self.options,
            panel=shown.panel,
            difficulties=shown.difficulties,
            max_tasks=shown.max_tasks,
            variants=shown.variants,
        )

    def _of_one_env(self) -> dict[str, tuple[Any, Any]]:
        shown, unset = self.demonstrations, DemonstrationsConfig()
        names = ("panel", "difficulties", "max_tasks", "variants")
        given = {f"demonstrations.{n}": (getattr(shown, n), getattr(unset, n)) for n in names}
        return super()._of_one_env() | given

    @model_validator(mode="after")
    def _check_mixture(self) -> Self:
        if self.mixture is None:
            return self
        if self.mixture.normalise or self.mixture.adaptive is not None:
            raise ValueError("mixture.normalise and mixture.adaptive are for rl: leave them out")
        for name, part in self.mixture.envs.items():
            if part.weight != 1 or part.dense or part.horizon or part.curriculum:
                raise ValueError(
                    f"mixture.envs.{name}: weight, dense, horizon and curriculum are for rl; "
                    "demonstrations are all learned from, and max_tasks says how many there are"
                )
            unset = PartConfig()
            for key in ("panel", "difficulties", "max_tasks", "variants"):
                is_set = getattr(part, key) != getattr(unset, key)
                if is_set and self.demonstrations.source != "expert":
                    raise ValueError(
                        f"mixture.envs.{name}.{key} belongs to demonstrations.source=expert"
                    )
        return self


class GroupsConfig(StrictConfig):
    """Which episodes an update learns from."""

    size: int = Field(8, ge=2)
    """Episodes per task; advantages are centred inside the group."""
    per_update: int = Field(16, ge=1)
    """Informative groups wanted: those whose rewards differ."""
    max_per_update: int | None = Field(None, ge=1)
    """Groups played for them at most; unset: twice `per_update`."""
    retries: int = Field(1, ge=0)
    """A broken episode is played again this often; still broken, it is masked."""
    min_judged: int | None = Field(None, ge=2)
    """A group with fewer judged episodes is dropped; unset: half its size, at least two."""
    carry_over: bool = False
    """Keep further groups under way across updates, so that no slot idles while the longest
    episode ends; their episodes may span policy versions, which the importance ratio covers.
    Otherwise every update starts and ends its own groups and is exactly on-policy."""
    variants: int = Field(1, ge=1)
    """Prompt variants of a task to draw from, where the environment has them."""


class OverlapConfig(StrictConfig):
    """Sample with a copy of the weights while the next ones are trained."""

    max_staleness: int = Field(1, ge=0)
    """Updates between the weights that began a group and those that learn from it, at most.
    0 is strictly on-policy: nothing is sampled while weights change."""


class ReplayConfig(StrictConfig):
    """Learn again from successes at tasks that rarely succeed."""

    size: int = Field(64, ge=1)
    """Episodes kept; the oldest make room."""
    per_task: int = Field(2, ge=1)
    """Of one task."""
    max_success: float = Field(0.25, gt=0, lt=1)
    """A task is rare while at most this share of a group succeeds; once more do, it is let go."""
    per_update: int = Field(8, ge=1)
    """Episodes drawn for an update."""
    weight: float = Field(0.1, gt=0)
    """Of their loss, a mean over their tokens, beside the algorithm's."""
    clip: float = Field(0.2, ge=0)
    """A token is imitated until it is this much likelier than when it was sampled."""


class RlConfig(TrainingConfig):
    """Reinforcement learning in an environment."""

    panel: str | Names = "train"
    """One panel or several, as in `[train, train~2]`."""
    difficulties: Names | None = None
    """Only tasks of these, as in `depth 1`; unset: all."""
    max_tasks: int | None = Field(None, ge=1)
    """Use this many tasks of the panel, drawn by the run's seed."""
    num_updates: int = Field(100, ge=1)
    max_minutes: float | None = Field(None, gt=0)
    """Stop after the update that passes this time, evaluations aside."""
    groups: GroupsConfig = GroupsConfig()
    algorithm: AlgorithmConfig = GrpoConfig()
    dense: float = Field(0.0, ge=0)
    """Weight of progress towards the goal, paid to each turn by milestones or by the expert's
    count of what is left; for algorithms that give turns credit of their own."""
    horizon: Horizon | None = None
    """Turns of training episodes as updates go by, as in `[{update: 0, max_turns: 6}, …]`."""
    curriculum: CurriculumConfig | None = None
    """Unset: tasks come as a shuffle has them."""
    replay: ReplayConfig | None = None
    """Unset: an episode is learned from once."""
    overlap: OverlapConfig | None = None
    """Unset: sampling and training take turns."""

    @property
    def max_staleness(self) -> int:
        """How old a group's weights may be; carry-over alone sets no limit."""
        return self.overlap.max_staleness if self.overlap is not None else 0

    def _only_part(self) -> PartConfig:
        return PartConfig(
            options=self.options,
            panel=self.panel,
            difficulties=self.difficulties,
            max_tasks=self.max_tasks,
            variants=self.groups.variants,
            dense=self.dense,
            horizon=self.horizon,
            curriculum=self.curriculum,
        )

    def _of_one_env(self) -> dict[str, tuple[Any, Any]]:
        return super()._of_one_env() | {
            "panel": (self.panel, "train"),
            "difficulties": (self.difficulties, None),
            "max_tasks": (self.max_tasks, None),
            "groups.variants": (self.groups.variants, 1),
            "dense": (self.dense, 0.0),
            "horizon": (self.horizon, None),
            "curriculum": (self.curriculum, None),
        }

    @model_validator(mode="after")
    def _check_dense(self) -> Self:
        for part in self.parts().values():
            if part.dense > 0 and not self.algorithm.credits_turns:
                raise ValueError(
                    f"dense={part.dense:g} pays single turns, and "
                    f"algorithm.name={self.algorithm.name} gives all turns of an episode the same "
                    "credit: take ppo, gigpo or reinforce_pp, or leave dense out"
                )
        return self

    @model_validator(mode="after")
    def _check_overlap(self) -> Self:
        if self.overlap is not None and self.groups.carry_over:
            raise ValueError(
                "groups.carry_over keeps groups under way without a limit, overlap with one: "
                "leave one out"
            )
        if self.max_staleness > 0 and self.algorithm.mismatch_cap is None:
            raise ValueError(
                "overlap learns from older weights' episodes, which algorithm.mismatch_cap weighs: "
                "give it a number"
            )
        return self

    @model_validator(mode="after")
    def _check_sampling(self) -> Self:
        if self.sampling.temperature == 0:
            raise ValueError("sampling.temperature 0 gives equal episodes: a group learns nothing")
        if self.sampling.top_p < 1:
            raise ValueError(
                "sampling.top_p must be 1 in training: the ratio would compare distributions "
                "with different support"
            )
        return self
