"""Names of the public surface that were replaced are still taken, with a warning that says what to write."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import ClassVar

import pytest

import gspmd
from gspmd import old_names
from gspmd.dialect import renaming
from gspmd.dialect.diagnostic import Diagnostic, telling
from gspmd.dialect.renaming import Renamed, by_old_name, renamed_argument
from gspmd.pass_manager import manager
from gspmd.transforms.ir.operations import Operation
from gspmd.transforms.passes import Pass, make_pass, option, options_of

OLD = Renamed("depth", until="9.0.0")


@dataclasses.dataclass(frozen=True)
class Deepen(Pass):
    """A pass, and an option of it, that were called something else."""

    argument = "test-deepen"
    summary = "Nothing"
    renamed: ClassVar[tuple[Renamed, ...]] = (Renamed("test-lower", until="9.0.0"),)
    max_depth: int = option(1, "how deep", renamed=(OLD,))

    def run(self, module: Operation) -> None:
        """Do nothing."""


@pytest.fixture
def said() -> Iterator[list[Diagnostic]]:
    renaming.warn_in_text.cache_clear()
    heard: list[Diagnostic] = []
    with telling(heard.append):
        yield heard


def test_an_old_name_of_an_option_means_the_new_one_and_is_warned_of_once(said: list[Diagnostic]) -> None:
    assert make_pass(Deepen, [("depth", "3")]) == make_pass(Deepen, [("depth", "3")]) == Deepen(max_depth=3)
    (warning,) = said
    assert str(warning) == (
        "gspmd: warning: option of pass 'test-deepen' 'depth' is called 'max-depth' now, "
        "and gspmd 9.0.0 will not take the old name"
    )


def test_a_name_of_today_is_not_warned_of(said: list[Diagnostic]) -> None:
    assert make_pass(Deepen, [("max-depth", "3")]) == Deepen(max_depth=3)
    assert said == []


def test_an_option_under_both_names_is_given_twice(said: list[Diagnostic]) -> None:
    with pytest.raises(gspmd.UsageError, match="given twice"):
        make_pass(Deepen, [("max-depth", "3"), ("depth", "4")])


def test_an_old_name_of_a_pass_means_the_new_one(said: list[Diagnostic], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(manager._OURS, Deepen.argument, Deepen)
    monkeypatch.setattr(manager, "_OLD", by_old_name({Deepen.argument: Deepen.renamed}))
    assert str(gspmd.PassManager(["test-lower{depth=3}"])) == "builtin.module(test-deepen{max-depth=3})"
    assert [warning.message.partition(" now")[0] for warning in said] == [
        "pass 'test-lower' is called 'test-deepen'",
        "option of pass 'test-deepen' 'depth' is called 'max-depth'",
    ]


def test_an_old_name_of_the_pipelines_options_reaches_its_passes(
    said: list[Diagnostic], monkeypatch: pytest.MonkeyPatch
) -> None:
    from gspmd.transforms import pipeline

    known = pipeline.pipeline_options()
    renamed = [dataclasses.replace(each, renamed=(OLD,)) if each.name == "combine-bytes" else each for each in known]
    monkeypatch.setattr(pipeline, "pipeline_options", lambda: tuple(renamed))
    assert [*map(str, pipeline.default_pipeline({"depth": 64}))] == [
        *map(str, pipeline.default_pipeline({"combine_bytes": 64}))
    ]
    assert "'depth' is called 'combine-bytes' now" in said[0].message


def test_an_old_name_of_the_package_is_the_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(old_names.OLD_NAMES, "partition", (Renamed("shard", until="9.0.0"),))
    with pytest.warns(DeprecationWarning, match="'shard' is called 'partition' now") as caught:
        assert gspmd.shard is gspmd.partition  # type: ignore[attr-defined]
    assert caught[0].filename == __file__
    with pytest.raises(AttributeError, match="no attribute 'shards'"):
        gspmd.shards  # type: ignore[attr-defined]  # noqa: B018


def test_an_old_name_of_an_argument_is_the_new_one() -> None:
    @renamed_argument("max_depth", OLD)
    def deepen(value: int, *, max_depth: int = 1) -> tuple[int, int]:
        return value, max_depth

    assert deepen(1, max_depth=2) == (1, 2)
    with pytest.warns(DeprecationWarning, match="'depth' is called 'max_depth' now") as caught:
        assert deepen(1, depth=2) == (1, 2)  # type: ignore[call-arg]
    assert caught[0].filename == __file__
    with pytest.raises(gspmd.UsageError, match="'max_depth' and 'depth', its old name; give 'max_depth'"):
        deepen(1, max_depth=2, depth=2)  # type: ignore[call-arg]


def test_options_that_passes_share_have_the_same_old_names() -> None:
    names: dict[str, tuple[Renamed, ...]] = {}
    for declaration in manager.PASSES:
        for each in options_of(declaration):
            assert names.setdefault(each.name, each.renamed) == each.renamed, each.name
