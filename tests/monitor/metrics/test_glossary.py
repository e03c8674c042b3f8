"""The glossary is complete, its ids are unique and say what they are, and every text that a page shows is there."""

import importlib
import pkgutil

import pytest

from ingest.discover import discover
from monitor import metrics
from monitor.metrics import glossary
from monitor.metrics.terms import RATIOS

COMPILED = "loops"  # needs numba, ends in no METRICS


def test_every_family_file_is_in_the_glossary():
    names = [info.name for info in pkgutil.iter_modules(metrics.__path__) if info.name not in {COMPILED, "glossary", "frame"}]
    modules = [importlib.import_module(f"monitor.metrics.{name}") for name in names]
    assert {module for module in modules if "METRICS" in vars(module)} == set(glossary.FAMILIES)


def test_ids_are_unique_and_dotted():
    ids = [metric.id for metric in glossary.METRICS]
    assert len(ids) == len(set(ids))
    assert all("." in name and name == name.lower() for name in ids)


@pytest.mark.parametrize("metric", glossary.METRICS, ids=lambda metric: metric.id)
def test_a_row_says_everything_a_page_shows(metric):
    assert metric.title
    assert metric.formula
    assert metric.direction
    assert metric.blind_to
    assert metric.reference
    assert metric.low < metric.high
    if metric.ratio is not None:  # a family computed per ratio
        assert metric.ratio in metric.id.split(".")
        assert metric.ratio in metric.title
    if metric.no_mismatch is not None:
        assert metric.low <= metric.no_mismatch <= metric.high


def test_the_ids_other_parts_rely_on_are_there():
    names = ["entropy.mean", "reward.mean", "version_lag.mean", "version_lag.share_64", "split.lag.share", "kl_ref.k3", "objective.loss"]
    for ratio in RATIOS:
        names += [f"log_ratio.{ratio}.{name}" for name in ("mean", "abs_mean", "sd", "min", "max", "p01", "p05", "p50", "p95", "p99")]
        names += [f"ratio.{ratio}.{name}" for name in ("mean", "z", "largest_share")]
        names += [f"kl.{ratio}.{name}" for name in ("k1", "k2", "k3")]
        names += [f"clip_rate.{ratio}.{name}" for name in ("outside", "effective", "sequence")]
        names += [f"ess.{ratio}.{name}" for name in ("token", "sequence", "sequence_mean")]
    assert all(glossary.known(name) for name in names)


def test_every_quantity_that_a_dialect_names_is_in_it():
    named = {key.quantity for dialect in discover("ingest.dialects", "DIALECT") for key in dialect.keys}
    assert len(named) > 20
    assert {name for name in named if not glossary.known(name)} == set()


def test_the_envelope_of_a_grouped_export_is_the_metric_it_belongs_to():
    found = glossary.metric("ess.lag.token.group_low")
    assert found.title == "ESS (token level), lag (lowest run of the group)"
    assert found.high == 1.0
    assert not glossary.known("nonsense.group_low")
    with pytest.raises(KeyError):
        glossary.metric("nonsense")
