"""The committed study: its page and figures are what the code makes of its document, and its verdicts follow the numbers."""

import copy
import json
from pathlib import Path

import pytest

from sample_runs.lab.study_bands import Band, at, band, collapsed, first_under_half, number, pairwise, row_id, seeds, steps, times
from sample_runs.lab.study_catalogue import INDEPENDENT, REFERENCES, RUNS, SEEDS
from sample_runs.lab.study_centre_words import centre_words
from sample_runs.lab.study_claims import Verdict, discrepancy, exact_split, feedback, yardstick
from sample_runs.lab.study_claims_runs import DLC, beside_vcpo, coarse_engines, unseen_collapse, within_twice
from sample_runs.lab.study_page import CLAIMS, figures, page
from sample_runs.lab.study_results import settings
from sample_runs.lab.study_settings import Scale
from sample_runs.lab.study_sight import Sight, sight, visibility

DOCS = Path(__file__).resolve().parents[2] / "docs"
ON_POLICY = "none-always-float32"


@pytest.fixture(scope="module")
def committed():
    return json.loads((DOCS / "dlc-study.json").read_text())


@pytest.fixture
def document(committed):
    """A copy to be changed."""
    return copy.deepcopy(committed)


def test_the_page_and_its_figures_are_made_from_the_document(committed):
    assert page(committed) == (DOCS / "dlc-study.md").read_text()
    for name, text in figures(committed).items():
        assert (DOCS / name).read_text() == text
        assert f"({name})" in page(committed)


def test_the_document_holds_every_run_of_the_catalogue_and_the_settings_of_the_code(committed):
    found = {(row, int(seed)) for row, content in committed["rows"].items() for seed in content["seeds"]}
    assert found == {(run.row, run.seed) for run in RUNS}
    assert committed["settings"] == json.loads(json.dumps(settings(Scale())))


def test_every_row_has_three_seeds_at_least_and_the_references_are_not_their_own_yardstick(committed):
    assert all(len(content["seeds"]) >= 3 for content in committed["rows"].values())
    assert not set(REFERENCES) & set(INDEPENDENT) | set(REFERENCES) & set(SEEDS)
    values = at(committed, ON_POLICY, 100, "on_policy")[3:]
    assert pairwise(committed, 100) == Band.of(values)


def test_a_value_in_units_of_the_yardstick(committed):
    unit = pairwise(committed, 40).mid
    assert times(committed, DLC, 40).high == max(at(committed, DLC, 40, "on_policy")) / unit


def test_the_split_is_refuted_by_a_discrepancy_of_an_exact_engine(document):
    assert exact_split(document).verdict is Verdict.REPRODUCED
    seeds(document, ON_POLICY)["0"]["at"]["60"]["step.log_ratio.discrepancy.abs_mean"] = 2e-5
    assert exact_split(document).verdict is Verdict.CONTRADICTED


def _set(document, row, key, value):
    for run in seeds(document, row).values():
        for values in run["at"].values():
            values[key] = value


def test_feedback_is_refuted_where_the_uncorrected_lag_is_that_of_an_on_policy_run(document):
    _set(document, row_id("none", "never", "fp8_e4m3"), "moved", band(document, ON_POLICY, 100, "moved").low)
    assert feedback(document).verdict is Verdict.CONTRADICTED


@pytest.mark.parametrize(("factor", "verdict"), [(0.9, Verdict.REPRODUCED), (3.0, Verdict.CONTRADICTED)])
def test_within_twice_follows_the_numbers(document, factor, verdict):
    for step in steps(document):
        for key in ("on_policy", "own"):
            unit = pairwise(document, step, key).mid
            for run in seeds(document, DLC).values():
                run["at"][str(step)][key] = factor * unit
    assert within_twice(document).verdict is verdict


def test_within_twice_is_in_part_where_one_seed_is_out(document):
    for step in steps(document):
        for key in ("on_policy", "own"):
            unit = pairwise(document, step, key).mid
            for factor, run in zip((0.9, 1.0, 2.5), seeds(document, DLC).values(), strict=True):
                run["at"][str(step)][key] = factor * unit
    assert within_twice(document).verdict is Verdict.IN_PART


def test_both_yardsticks_of_claim_5_are_printed_and_every_row_of_its_table_is_its_own(committed):
    found = within_twice(committed)
    printed = [f"{pairwise(committed, step)}; {pairwise(committed, step, 'own')}" for step in steps(committed)]
    assert list(found.table[1][1:]) == printed
    for step in steps(committed):
        assert all(str(pairwise(committed, step, key)) in yardstick(committed) for key in ("on_policy", "own", "stale"))
        assert str(pairwise(committed, step, "own")) in page(committed)
    own, rows = times(committed, DLC, 100, "own"), {row[0]: row[-1] for row in found.table[2:]}
    assert rows["DLC, sequence (strict resync)"] == f"{times(committed, DLC, 100)}; {own}"
    assert len(set(rows.values())) == len(rows)


def test_claim_5_says_what_own_texts_give_in_the_yardstick_of_on_policy_texts(document):
    step = str(steps(document)[-1])
    unit = pairwise(document, int(step)).mid
    next(iter(seeds(document, DLC).values()))["at"][step]["own"] = 5.25 * unit  # beyond every other value
    sentence = next(words for words in within_twice(document).because if "the other yardstick" in words)
    assert "DLC up to 5.25, over 2 in 2 of 18" in sentence
    assert "By that yardstick the verdict would be: in part." in sentence
    for seed in INDEPENDENT:
        for values in seeds(document, ON_POLICY)[str(seed)]["at"].values():
            values["own"] = values.get("on_policy", 0.0)
    sentence = next(words for words in within_twice(document).because if "the other yardstick" in words)
    assert "It does not decide" not in sentence


def test_the_discrepancy_follows_only_what_it_follows_in_every_run(document):
    found = discrepancy(document)
    assert found.verdict is Verdict.IN_PART
    assert "is not shown" in found.because[-1]
    for row, head in document["rows"].items():
        if head["engine"] == "fp8_e4m3" and head["sync"] != "never":
            for run in seeds(document, row).values():
                for place, values in enumerate(run["at"].values()):
                    values["entropy"], values["step.log_ratio.discrepancy.abs_mean"] = 1.0 - 0.1 * place, 1.0 + 0.01 * place
    found = discrepancy(document)
    assert found.verdict is Verdict.REPRODUCED
    assert "It follows the policy's entropy" in found.because[-1]


def test_how_far_collapsed_and_healthy_runs_overlap():
    assert sight([3.0, 5.0], [1.0, 2.0]) == Sight(hidden=0, above=0)
    assert sight([1.5, 2.0, 5.0], [1.0, 2.0, 1.7]) == Sight(hidden=2, above=2)


def test_generator_prefixes_hide_a_collapse_only_where_other_prefixes_show_it(document):
    invisible, words = visibility(document)
    assert not invisible
    assert "the 9 collapsed runs are compared with the 91 runs" in words
    assert "the generator's prefixes: 5 and 40" in words  # counted by a reader of the document, by hand
    fallen = [run for head in document["rows"].values() if head["sync"] == "never" for run in head["seeds"].values() if collapsed(run)]
    for run in fallen:
        run["at"]["100"] |= {"stale": 0.01, "on_policy": 9.0, "own": 9.0}
    assert visibility(document)[0]
    assert "hide collapses that the other prefixes show" in visibility(document)[1]
    for run in fallen:
        run["at"]["100"]["stale"] = 9.0
    assert visibility(document) == (False, visibility(document)[1])
    assert "Generator prefixes show every collapse." in visibility(document)[1]


def test_a_collapse_is_a_fall_under_half_of_the_best_before():
    run = {"at": {str(step): {"reward": reward} for step, reward in ((0, 0.2), (10, 0.8), (100, 0.41))}}
    assert not collapsed(run)
    run["at"]["20"] = {"reward": 0.39}
    assert collapsed(run)


def test_without_collapses_the_claim_of_collapses_is_refuted(document):
    for row, content in document["rows"].items():
        if content["sync"] in {"never", "strict"}:
            _set(document, row, "reward", 0.9 if content["sync"] == "never" else 0.8)
    found = unseen_collapse(document)
    assert found.verdict is Verdict.IN_PART  # resync still prevents
    assert any("No run collapsed" in sentence for sentence in found.because)


def _coarse_pairs(document):
    pairs = [("dlc_sequence-strict", "sequence_lag-strict"), ("centring-always", "none-always")]
    found = [(f"{centred}-{engine}", f"{plain}-{engine}") for engine in ("int4", "int_11_levels") for centred, plain in pairs]
    return [pair for pair in found if set(pair) <= set(document["rows"])]


def test_centring_hurts_only_where_distance_and_discrepancy_are_both_larger(document):
    for centred, plain in _coarse_pairs(document):
        for key in ("on_policy", "step.kl.discrepancy"):
            _set(document, plain, key, 0.01)
            _set(document, centred, key, 0.02)
    assert coarse_engines(document).verdict is Verdict.REPRODUCED
    for centred, _ in _coarse_pairs(document)[1:]:
        _set(document, centred, "step.kl.discrepancy", 0.01)
    assert coarse_engines(document).verdict is Verdict.IN_PART
    _set(document, "centring-always-int4", "on_policy", 0.005)
    _set(document, "dlc_sequence-strict-int4", "step.kl.discrepancy", 0.01)
    assert coarse_engines(document).verdict is Verdict.CONTRADICTED  # the other pair is even better with the centre
    for centred, _ in _coarse_pairs(document):
        _set(document, centred, "on_policy", 0.01)
    assert coarse_engines(document).verdict is Verdict.NOT_HERE


def test_vcpo_is_refuted_where_it_neither_helps_nor_costs(document):
    alone, bare = row_id("vcpo", "never", "fp8_e4m3"), row_id("sequence_is", "never", "fp8_e4m3")
    _set(document, alone, "on_policy", 0.5)
    _set(document, bare, "on_policy", 0.4)
    _set(document, alone, "reward", 1.0)
    assert beside_vcpo(document).verdict is Verdict.CONTRADICTED


def test_vcpo_says_its_cost_in_reward_first_and_is_in_part_for_it(document):
    alone, bare = row_id("vcpo", "never", "fp8_e4m3"), row_id("sequence_is", "never", "fp8_e4m3")
    found, rewards = beside_vcpo(document), [band(document, row, 100, "reward") for row in (alone, bare)]
    assert found.verdict is Verdict.IN_PART
    assert f"with VCPO's factor the reward is {rewards[0]}, without it {rewards[1]}: the factor costs reward" in found.because[0]
    _set(document, bare, "reward", rewards[0].mid)
    assert beside_vcpo(document).verdict is Verdict.REPRODUCED
    assert "no cost in reward is shown" in beside_vcpo(document).because[0]


def test_no_single_gradient_blames_a_part_of_the_centre(document):
    assert "is not shown" in centre_words(document).split("**The gradient itself.**")[1].split("\n")[0]
    for run in document["fidelity"]["dlc_sequence-strict-int_11_levels"].values():
        for one in run:
            one["plain_offset"]["cosine"] = one["dlc_sequence"]["cosine"] + 0.1
    assert "Up in all of them: leaving out rho." in centre_words(document)


def test_a_cause_of_the_changing_discrepancy_is_named_only_where_the_bands_show_one(document):
    assert "neither growth nor fall, nor a cause of either, is shown" in centre_words(document)
    for head in document["rows"].values():
        for run in head["seeds"].values() if head["engine"] in {"int4", "int_11_levels"} else ():
            for where in ("own", "fixed"):
                if f"discrepancy_{where}" in run["at"]["100"]:
                    run["at"]["100"][f"discrepancy_{where}"] = 3 * run["at"]["0"][f"discrepancy_{where}"]
    assert "The weights alone raise it in every run, and it moves that way on own texts too." in centre_words(document)


def test_a_rank_correlation_of_either_sign_is_not_followed(document):
    rows = [row for row, head in document["rows"].items() if head["engine"] in {"int4", "int_11_levels"}]
    for number_of, run in enumerate(run for row in rows for run in seeds(document, row).values()):
        for place, values in enumerate(run["at"].values()):
            values["entropy"], values["step.kl.discrepancy"] = (0.1 if number_of else -0.1) * place, 0.01 * place
    assert "the closest, the band spans both signs" in centre_words(document)


def test_the_reasons_name_what_the_discrepancy_follows_only_where_it_follows(document):
    rows = [row for row, head in document["rows"].items() if head["engine"] in {"int4", "int_11_levels"}]
    assert "follows none of them" in centre_words(document) or "most closely" in centre_words(document)
    for row in rows:
        for run in seeds(document, row).values():
            for place, values in enumerate(run["at"].values()):
                values["entropy"], values["step.kl.discrepancy"] = 1.0 - 0.1 * place, 1.0 - 0.01 * place
    assert "It follows the entropy most closely." in centre_words(document)


def test_every_claim_has_its_number_a_verdict_and_sentences(committed):
    found = [claim(committed) for claim in CLAIMS]
    assert [claim.number for claim in found] == list(range(1, 9))
    assert all(claim.because for claim in found)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (1.234, "1.2"), (0.0123, "0.012"), (12.3, "12"), (123.4, "120"), (3e-6, "3e-06"), (0.999, "1.0"), (12, "12"), (251, "251")],
)
def test_numbers_have_two_significant_digits(value, text):
    assert number(value) == text


def test_the_first_step_under_half():
    run = {"series": {"ess.lag.token": [1.0, 0.5, 0.49], "ess.lag.sequence": [1.0]}}
    assert first_under_half(run, "token") == 3
    assert first_under_half(run, "sequence") is None
