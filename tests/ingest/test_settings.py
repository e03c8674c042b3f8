"""Settings under our names, with the key each was taken from."""

from ingest._settings import settings
from ingest.dialect import Dialect


def dialect(**more):
    return Dialect(id="d", title="d", old_is="", keys=(), **more)


def test_a_rename_keeps_the_value_and_says_its_source():
    config, sources = settings({"a.temp": 0.7}, dialect(config={"a.temp": "sampling.temperature"}))
    assert config == {"a.temp": 0.7, "sampling.temperature": 0.7}
    assert sources == {"sampling.temperature": "a.temp"}


def test_what_is_set_under_our_name_stays_and_has_no_source():
    config, sources = settings({"a": 1, "sampling.top_p": 0.5}, dialect(config={"a": "sampling.top_p"}))
    assert (config["sampling.top_p"], sources) == (0.5, {})


def test_what_a_dialect_works_out_goes_over_a_rename():
    def work_out(config):
        return {"engine.name": (str(config["e"]).lower(), "e")}

    config, sources = settings({"e": "VLLM", "f": "x"}, dialect(config={"f": "engine.name"}, settings=work_out))
    assert (config["engine.name"], sources) == ("vllm", {"engine.name": "e"})


def test_of_two_keys_for_one_setting_the_first_in_the_dialect_counts():
    config, sources = settings({"new": 1, "old": 2}, dialect(config={"new": "sampling.top_k", "old": "sampling.top_k"}))
    assert (config["sampling.top_k"], sources) == (1, {"sampling.top_k": "new"})
