"""What training can be told: the model, demonstrations, the optimiser, the RL loop."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from practicum.config.algorithms import AlgorithmConfig, GrpoConfig
from practicum.config.base import StrictConfig
from practicum.config.eval import LimitsConfig, SamplingConfig

TrackerName = Literal["tensorboard", "wandb"]
Names = Annotated[list[str], Field(min_length=1)]


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

    source: Literal["expert", "table"] = "expert"
    """`expert`: the environment's expert plays; `table`: read `path`."""
    panel: str | Names = "train"
    """One panel or several."""
    difficulties: Names | None = None
    """Only tasks of these, as in `depth 1`; unset: all."""
    max_tasks: int | None = Field(None, ge=1)
    """Take this many tasks of the panel, drawn by the run's seed."""
    variants: int = Field(1, ge=1)
    """Prompt variants per task, where the environment has them."""
    path: str | None = None
    """A JSONL table or a run folder, for `source: table`."""
    longer: Literal["refuse", "skip"] = "refuse"
    """What to do with demonstrations over `model.max_context`: none is ever cut."""
    turns: Literal["all", "accepted"] = "all"
    """`accepted`: no loss on answers the world refused or that missed the format."""
    slips: SlipsConfig | None = None
    """Mistakes in the expert's play, without a loss on them: what follows shows a way back."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.source == "table") != (self.path is not None):
            raise ValueError("demonstrations.path belongs to demonstrations.source=table")
        if self.source == "table" and self.slips is not None:
            raise ValueError("demonstrations.slips belongs to demonstrations.source=expert")
        return self


class TrainingConfig(StrictConfig):
    """What supervised training and RL have in common."""

    env: str
    options: dict[str, Any] = Field(default_factory=dict)
    """Settings of the environment itself."""
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


class HorizonConfig(StrictConfig):
    """From which update on how many turns an episode may have."""

    update: int = Field(ge=0)
    max_turns: int = Field(ge=1)


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
    horizon: Annotated[list[HorizonConfig], Field(min_length=1)] | None = None
    """Turns of training episodes as updates go by, as in `[{update: 0, max_turns: 6}, …]`."""

    def max_turns(self, update: int) -> int | None:
        """The limit of turns after so many updates, by the schedule; None: there is no schedule."""
        due = [step.max_turns for step in self.horizon or () if step.update <= update]
        return due[-1] if due else None

    @model_validator(mode="after")
    def _check_dense(self) -> Self:
        if self.dense > 0 and not self.algorithm.credits_turns:
            raise ValueError(
                f"dense={self.dense:g} pays single turns, and algorithm.name={self.algorithm.name} "
                "gives all turns of an episode the same credit: take ppo, gigpo or reinforce_pp, "
                "or leave dense out"
            )
        return self

    @model_validator(mode="after")
    def _check_horizon(self) -> Self:
        if self.horizon is None:
            return self
        updates = [step.update for step in self.horizon]
        if updates[0] != 0 or updates != sorted(set(updates)):
            raise ValueError("horizon must begin with update 0 and go on with later ones")
        if self.limits.max_turns is not None:
            raise ValueError("limits.max_turns and horizon say the same thing: leave one out")
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
