"""The level of long-running programs for each demand and each machine."""

from dataclasses import replace

import pytest
from tests.tables import for_each

from bollard.cli.language import read_texts
from bollard.confine.errors import ConfineError, LevelMissing
from bollard.confine.order import WORKER_DEMANDS, WorkerDemand
from bollard.confine.plugin_launch import level_of
from bollard.confine.probe import Findings, machine_findings
from bollard.confine.worker_level import LevelName, choose_level

WHOLE = Findings(
    tried=True, landlock=7, seccomp=True, namespaces=True, view=True, controllers=("pids", "memory", "cpu")
)


@for_each(
    ("findings", "name", "missing"),
    [
        (WHOLE, "full", ""),
        (replace(WHOLE, controllers=("pids", "memory")), "namespaces", "groups"),
        (replace(WHOLE, controllers=("pids",)), "namespaces", "groups"),
        (replace(WHOLE, landlock=5), "namespaces", "landlock"),
        (replace(WHOLE, landlock=0), "namespaces", "landlock"),
        (replace(WHOLE, view=False), "landlock", "namespaces"),
        (replace(WHOLE, view=False, landlock=0), "none", "namespaces"),
        (replace(WHOLE, seccomp=False), "none", "seccomp"),
        (Findings(), "none", "not_probed"),
    ],
)
def test_the_best_level_is_the_strongest_of_the_machine(findings: Findings, name: LevelName, missing: str) -> None:
    best, strict, none = (choose_level(demand, findings) for demand in ("best", "strict", "none"))
    assert (best.name, best.missing, best.is_refused) == (name, missing, False)
    assert (strict.name, strict.is_refused) == (name, name != "full")
    assert (none.name, none.missing, none.is_refused) == ("none", "", False)
    assert bool(best.problem) == bool(best.hint) == bool(missing)


@for_each("missing", ["not_probed", "seccomp", "namespaces", "landlock", "groups"])
def test_each_missing_part_has_a_chinese_text(missing: str) -> None:
    assert {f"workers.{missing}", f"workers.{missing}.hint"} <= set(read_texts("zh_Hans/problems"))


@pytest.mark.parametrize("demand", WORKER_DEMANDS)
def test_the_variable_demands_a_level_where_no_host_is(demand: WorkerDemand) -> None:
    wanted = choose_level(demand, machine_findings())
    if wanted.is_refused:
        with pytest.raises(LevelMissing):
            level_of({"BOLLARD_WORKER_SANDBOX": demand})
    else:
        assert level_of({"BOLLARD_WORKER_SANDBOX": demand}) == wanted


def test_an_unknown_demand_is_refused() -> None:
    with pytest.raises(ConfineError, match="BOLLARD_WORKER_SANDBOX is 'most'"):
        level_of({"BOLLARD_WORKER_SANDBOX": "most"})
