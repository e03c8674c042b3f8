"""The user's own word on keys: read, refused with where, expected, found and remedy, written, laid over a dialect."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.dialect import Key
from ingest.errors import ReadError, UnknownDialectError
from ingest.identify import dialects
from ingest.load import load
from ingest.run import ProblemKind
from ingest.user_mapping import UserMapping, laid_over, parse, quantities, read_mapping, written

GOOD = """
dialect = "pipelinerl"
[keys."my/kl"]
quantity = "kl.total.k3"
sign = -1
scale = 0.5
caveat = "in half nats"
"""


def test_a_mapping_says_what_a_key_is():
    (key,) = parse(GOOD, "m.toml").keys
    assert key == Key(raw="my/kl", quantity="kl.total.k3", sign=-1, scale=0.5, caveat="in half nats")
    assert parse(GOOD, "m.toml").dialect == "pipelinerl"
    assert parse("", "m.toml") == UserMapping(path="m.toml")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("keys = [", ("m.toml: expected TOML", "For instance")),
        ("nonsense = 1", ("m.toml, nonsense", "only dialect and keys")),
        ("keys = 1", ("m.toml, keys", "a table for each key", "int '1'")),
        ('[keys]\n"a" = "b"', ('keys."a"', "a table with quantity", "str 'b'")),
        ('[keys."a"]\nquantity = "kl.totl.k3"', ('keys."a".quantity', "one of our metric ids", "kl.totl.k3", "Did you mean kl.")),
        ('[keys."a"]\nquantity = "zzz"', ("'zzz'", "docs/formats.md lists them all")),
        ('[keys."a"]\nsign = -1', ('keys."a".quantity', "''")),
        ('[keys."a"]\nquantity = "reward.mean"\nsign = 2', ('keys."a".sign', "1 or -1", "found 2", "Use scale")),
        ('[keys."a"]\nquantity = "reward.mean"\nsign = true', ('keys."a".sign', "True")),
        ('[keys."a"]\nquantity = "reward.mean"\nscale = 0', ('keys."a".scale', "other than 0")),
        ('[keys."a"]\nquantity = "reward.mean"\nscale = inf', ('keys."a".scale', "finite")),
        ('[keys."a"]\nquantity = "reward.mean"\nscale = "x"', ('keys."a".scale', "'x'")),
        ('[keys."a"]\nquantity = "reward.mean"\ncaveat = 3', ('keys."a".caveat', "text in quotes")),
        ('[keys."a"]\nquantity = "reward.mean"\nsgin = -1', ('keys."a"', "only quantity, sign, scale, caveat", "sgin")),
        ('dialect = "nonsense"', ("m.toml, dialect", "pipelinerl", "'nonsense'")),
        ("dialect = 3", ("m.toml, dialect", "found 3")),
    ],
)
def test_what_cannot_be_is_refused_with_the_place(text, parts):
    with pytest.raises(ReadError) as refused:
        parse(text, "m.toml")
    for part in parts:
        assert part in str(refused.value)


def test_a_file_that_is_none(tmp_path):
    with pytest.raises(ReadError, match="Check the path"):
        read_mapping(tmp_path / "absent.toml")
    (tmp_path / "latin.toml").write_bytes(b'a = "\xe9"')
    with pytest.raises(ReadError, match="Save the file as UTF-8"):
        read_mapping(tmp_path / "latin.toml")
    (tmp_path / "large.toml").write_bytes(b"#" * (2**20 + 1))
    with pytest.raises(ReadError, match="under 1 MiB"):
        read_mapping(tmp_path / "large.toml")


@given(
    keys=st.dictionaries(
        st.text(max_size=20).filter(lambda text: text.encode("utf-8", "replace").decode() == text),
        st.tuples(st.sampled_from(quantities()), st.sampled_from([1, -1]), st.floats(0.001, 1000), st.text(max_size=20)),
        max_size=4,
    )
)
def test_what_is_written_is_read_again(keys):
    mapped = tuple(
        Key(raw=raw, quantity=q, sign=s, scale=f, caveat=c.encode("utf-8", "replace").decode()) for raw, (q, s, f, c) in keys.items()
    )
    assert parse(written(UserMapping(keys=mapped, dialect="plain")), "m").keys == mapped
    assert parse(written(UserMapping(keys=mapped)), "m").dialect is None


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text('{"step": 1, "my/kl": -0.5, "rl/reward": 0.25, "odd": 3}\n')
    return path


def rows(run):
    return {row["quantity"]: (row["value"], row["source_key"]) for row in run.scalars.to_pylist()}


def test_a_mapping_adds_to_the_dialect(log):
    (run,) = load(log, mapping=parse(GOOD, "m"))
    assert rows(run) == {"kl.total.k3": (0.25, "my/kl"), "reward.mean": (0.25, "rl/reward")}
    assert run.dialect == "pipelinerl"
    assert [problem.place for problem in run.problems if problem.kind is ProblemKind.UNMAPPED] == ["key odd"]


def test_the_users_word_goes_over_the_dialects(log):
    (run,) = load(log, mapping=parse('[keys."rl/reward"]\nquantity = "entropy.mean"', "m"))
    assert rows(run) == {"entropy.mean": (0.25, "rl/reward")}
    (run,) = load(log, mapping=parse('[keys."odd"]\nquantity = "reward.mean"', "m"))
    assert rows(run)["reward.mean"] == (3.0, "odd")


def test_settings_do_not_adjust_the_users_word():
    own = Key(raw="rl/ess", quantity="ess.total.token")
    (pipelinerl,) = [dialect for dialect in dialects() if dialect.id == "pipelinerl"]
    theirs = next(key for key in pipelinerl.keys if key.raw == "rl/ess")
    assert pipelinerl.adjust(theirs, {}) != theirs, "this key is one that settings adjust"
    assert laid_over(pipelinerl, [own]).adjust(own, {}) == own


def test_a_mapping_is_enough_where_no_dialect_knows_a_key(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text('{"step": 1, "zz/a": 1.5}\n')
    with pytest.raises(UnknownDialectError, match="--map"):
        load(path)
    (run,) = load(path, mapping=parse('[keys."zz/*"]\nquantity = "reward.mean"', "m"))
    assert (run.dialect, rows(run)) == ("mapping", {"reward.mean": (1.5, "zz/a")})
    assert "the mapping names 1 of the 1 keys" in run.why


def test_a_name_that_the_log_does_not_have_is_said_with_its_neighbour(tmp_path):
    log = tmp_path / "log.jsonl"
    log.write_text('{"step": 1, "my/kl": 0.1}\n', encoding="utf-8")
    keys = tuple(Key(raw=name, quantity=quantity) for name, quantity in (("my/kl", "kl.total.k3"), ("my/kll", "kl.total.k1")))
    (run,) = load(log, mapping=UserMapping(keys=keys))
    (note,) = [problem for problem in run.problems if problem.place == "key my/kll"]
    assert note.what.endswith("it has my/kl")
    assert note.rows == 0
