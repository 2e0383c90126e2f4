"""The backend's settings: choices, refusals and their hints."""

from __future__ import annotations

import pytest

from xla_notebook.backend.config import CHOICES, Config, validate


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in CHOICES.items() for value in values])
def test_every_choice_is_taken(name: str, value: object) -> None:
    config = Config()
    setattr(config, name, value)
    assert getattr(config, name) == value


def test_the_defaults() -> None:
    config = Config()
    assert (config.warm_up, config.guard, config.saved_buffers, config.on_donated) == (
        "compile",
        True,
        "share",
        "recover",
    )


@pytest.mark.parametrize(
    ("name", "value", "hint"),
    [
        ("warm_up", "compiled", "did you mean 'compile'"),
        ("warm_up", "Execute", "did you mean 'execute'"),
        ("warm_up", None, "is not one of 'compile', 'execute', 'off'"),
        ("guard", 1, "is not one of True, False"),
        ("guard", "true", "did you mean 'True'"),
        ("saved_buffers", "copies", "did you mean 'copy'"),
        ("on_donated", "raises", "did you mean 'raise'"),
        ("on_donated", True, "is not one of 'recover', 'raise'"),
    ],
)
def test_wrong_values_are_refused_and_change_nothing(name: str, value: object, hint: str) -> None:
    config = Config()
    with pytest.raises(ValueError, match=hint):
        setattr(config, name, value)
    assert config == Config()


@pytest.mark.parametrize(
    ("name", "hint"),
    [("warmup", "did you mean 'warm_up'"), ("zzz", "there are warm_up, guard, saved_buffers, on_donated")],
)
def test_unknown_settings_are_refused(name: str, hint: str) -> None:
    with pytest.raises(ValueError, match=hint):
        setattr(Config(), name, "compile")
    with pytest.raises(ValueError, match=hint):
        validate(name, "compile")
