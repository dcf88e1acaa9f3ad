"""The public names are these; a change here is a change for users."""

import subprocess
import sys

import practicum

PUBLIC = """
Act Action ActionFormat Agent Attempt ChatAgent Command Completion ConfigError Decision Env
EnvError Environment Episode EpisodeError ErrorInfo FormatError FormatErrorKind Group Image
Limits MachineError Message Observation Panel Policy PolicyError PracticumError Prompt Reward
RewardError RewardFn Run Sampling Script Situation Slots StepResult StopReason StoreError Table Task
Turn check_env get_format judge_outcome load_env make_policy play_episode play_group play_many
""".split()


def test_public_names_are_pinned() -> None:
    assert practicum.__all__ == sorted(PUBLIC)
    assert dir(practicum) == practicum.__all__


def test_every_public_name_exists() -> None:
    for name in PUBLIC:
        assert getattr(practicum, name).__name__ == name


def test_importing_the_package_imports_nothing_else() -> None:
    code = (
        "import sys; before = set(sys.modules); import practicum\n"
        "print([m for m in set(sys.modules) - before if m.partition('.')[0] not in"
        " {'practicum', 'importlib', '__future__', 'typing', 'warnings', '_typing'}"
        " | sys.stdlib_module_names])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
