import csv

import pytest

from sample_runs.lab import make as module
from sample_runs.lab.__main__ import main
from sample_runs.lab.warm_start import warm_start


def test_every_run_has_its_own_name_and_seed_group():
    names = module.names()
    assert len(names) == len(set(names))
    references = [run for run in module.RUNS if run.role == "reference"]
    assert [run.seed for run in references] == [0, 1, 2]
    assert {run.group for run in references} == {"v0_reference"}


def test_an_unknown_name_is_refused(capsys):
    with pytest.raises(SystemExit):
        main(["make", "--only", "v2"])
    assert "v1_broken" in capsys.readouterr().err


@pytest.mark.parametrize(("only", "made"), [("v1_fixed", ["v1_fixed"]), ("wandb_export", ["wandb_export"])])
def test_make_writes_only_what_was_asked_for(tmp_path, monkeypatch, tiny, only, made):
    """Two real processes, with short runs in place of the shipped ones."""
    monkeypatch.setattr(module, "warm_start", lambda seed, **more: warm_start(seed, scale=0.01, **more))
    monkeypatch.setattr(module, "RUNS", [short(run, tiny) for run in module.RUNS])
    monkeypatch.setattr(module, "CHART_RUNS", [short(run, tiny) for run in module.CHART_RUNS])
    module.make(tmp_path, [only])
    assert sorted(path.name for path in tmp_path.iterdir()) == made
    if only == "wandb_export":
        with (tmp_path / "wandb_export" / "rl_ess.csv").open() as file:
            assert next(csv.reader(file))[1] == "v0-wandb - rl/ess"


def short(run, tiny):
    from dataclasses import replace

    return replace(tiny(steps=6), name=run.name)
