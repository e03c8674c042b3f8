import csv

from sample_runs.lab.chart_csv import CHARTS, write_charts


def lines(steps, value):
    return [{"stats/completed_steps": step} | dict.fromkeys(CHARTS, value) for step in steps]


def test_a_chart_export_has_three_columns_a_run_all_quoted(tmp_path):
    paths = write_charts(tmp_path, {"one": lines((1, 2), 0.5), "two": lines((2,), 0.25)})
    assert [path.name for path in paths][:2] == ["rl_ess.csv", "rl_kl_new_old.csv"]
    text = paths[0].read_text()
    assert text.startswith('"Step","one - rl/ess","one - rl/ess__MIN","one - rl/ess__MAX","two - rl/ess",')
    assert text.splitlines()[1] == '"1","0.5","0.5","0.5","","",""'
    rows = list(csv.reader(paths[4].read_text().splitlines()))
    assert rows[2] == ["2", "0.5", "0.5", "0.5", "0.25", "0.25", "0.25"]
