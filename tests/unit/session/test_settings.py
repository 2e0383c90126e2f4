"""Settings are checked by value, change all at once or not at all, and tell of their changes."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from xla_notebook.backend import config as backend
from xla_notebook.session import SettingError, Settings
from xla_notebook.session.events import SettingChanged
from xla_notebook.session.settings import CHOICES, parse, to_backend
from xla_notebook.session.store import Session

from .reports import FakeClock


@pytest.fixture
def session() -> Session:
    return Session(now_ns=FakeClock())


@pytest.fixture
def backend_config() -> Iterator[backend.Config]:
    before = vars(backend.config).copy()
    yield backend.config
    for name, value in before.items():
        setattr(backend.config, name, value)


def test_defaults_are_allowed_values() -> None:
    settings = Settings()
    assert settings.replace(**settings.to_dict()) == settings
    assert set(settings.to_dict()) == set(CHOICES)


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("warm_up", "compiled", "warm_up cannot be 'compiled'; did you mean compile?"),
        ("warm_up", "EXECUTE", "did you mean execute?"),
        ("guard", 1, "guard cannot be 1; it is one of True, False"),
        ("guard", "true", "did you mean True?"),
        ("freeze", "erorr", "did you mean error? (one of off, warn, error)"),
        ("warmup", "off", "there is no setting 'warmup'; did you mean warm_up?"),
        ("xyz", "off", "there is no setting 'xyz'; it is one of warm_up, guard"),
    ],
)
def test_wrong_values_are_told_the_right_ones(session: Session, name: str, value: object, says: str) -> None:
    with pytest.raises(SettingError) as caught:
        session.set(on_donated="raise", **{name: value})  # type: ignore[arg-type]
    assert says in str(caught.value)
    assert session.settings == Settings()
    assert session.events() == []


@pytest.mark.parametrize(
    ("name", "text", "value"), [("guard", "off", False), ("guard", "True", True), ("warm_up", "off", "off")]
)
def test_parse_reads_what_people_type(name: str, text: str, value: object) -> None:
    assert parse(name, text) == value


def test_parse_refuses_other_words() -> None:
    with pytest.raises(SettingError, match="guard cannot be 'maybe'"):
        parse("guard", "maybe")


def test_change_is_an_event_and_same_value_is_not(session: Session) -> None:
    session.set(warm_up="execute", guard=True)
    (event,) = session.events()
    assert isinstance(event, SettingChanged)
    assert (event.name, event.old, event.new) == ("warm_up", "compile", "execute")
    assert session.snapshot().settings["warm_up"] == "execute"


def test_using_restores_only_its_own_settings(session: Session) -> None:
    with session.using(freeze="error"):
        session.set(warm_up="off")
        assert session.settings.freeze == "error"
    assert session.settings == Settings(warm_up="off")


def test_using_restores_after_an_exception(session: Session) -> None:
    with pytest.raises(ZeroDivisionError), session.using(freeze="error"):
        raise ZeroDivisionError
    assert session.settings.freeze == "off"


def test_change_from_another_thread_acts_while_a_cell_runs(session: Session) -> None:
    with session.cell(3):
        thread = threading.Thread(target=session.set, kwargs={"on_donated": "raise"})
        thread.start()
        thread.join()
        assert session.settings.on_donated == "raise"
    assert session.events()[0].cell is not None


def test_settings_reach_the_backend(backend_config: backend.Config) -> None:
    session = Session(apply=to_backend)
    session.set(warm_up="execute", guard=False, freeze="warn")
    assert (backend_config.warm_up, backend_config.guard) == ("execute", False)


def test_backend_that_refuses_leaves_the_settings_as_they_were() -> None:
    def refuse(settings: Settings) -> None:
        raise RuntimeError("not now")

    session = Session(apply=refuse)
    with pytest.raises(RuntimeError, match="not now"):
        session.set(warm_up="off")
    assert session.settings == Settings()
    assert session.events() == []


def test_backend_settings_and_ours_allow_the_same_values() -> None:
    shared = CHOICES.keys() & backend.CHOICES.keys()
    assert {"warm_up", "guard", "saved_buffers", "on_donated"} <= shared
    assert {name: CHOICES[name] for name in shared} == {name: backend.CHOICES[name] for name in shared}
