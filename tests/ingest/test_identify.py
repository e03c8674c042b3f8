"""One reader and one dialect, by content, or an error that lists why not."""

import pytest

from ingest import identify
from ingest.dialect import Dialect, Key
from ingest.errors import UnknownContainerError, UnknownDialectError
from ingest.identify import address_reader, choose_dialect, dialects, identify_dialect, identify_reader, readers

CONTENT = {
    "wandb_csv": b"Step,a - m\n1,2\n",
    "jsonl": b'{"step": 1}\n',
    "parquet_tokens": b"PAR1....PAR1",
}


@pytest.mark.parametrize("wanted", CONTENT)
@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet", "dat"])
def test_content_decides_not_the_suffix(tmp_path, wanted, suffix):
    path = tmp_path / f"file.{suffix}"
    path.write_bytes(CONTENT[wanted])
    assert identify_reader(path).id == wanted


@pytest.mark.parametrize("content", [b"\x00\x01\x02", b"just words\n", b"\x1f\x8b\x08\x00gzip\x00", b"[1, 2]\n"])
def test_what_no_reader_takes_lists_each_objection(tmp_path, content):
    path = tmp_path / "file.csv"
    path.write_bytes(content)
    with pytest.raises(UnknownContainerError) as refused:
        identify_reader(path)
    for reader in readers():
        assert f"no {reader.title}: " in str(refused.value)


def test_an_empty_folder(tmp_path):
    with pytest.raises(UnknownContainerError, match="the folder has no Parquet parts"):
        identify_reader(tmp_path)


def test_a_pointer_is_not_the_file(tmp_path):
    path = tmp_path / "tokens.parquet"
    path.write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
    with pytest.raises(UnknownContainerError, match="git lfs pull"):
        identify_reader(path)


def test_the_dialect_with_the_most_keys():
    assert identify_dialect(["rl/ess", "foo"]).id == "pipelinerl"
    assert identify_dialect(["ess.total.token", "reward"]).id == "plain"
    assert identify_dialect(["ess.total.token.group_low"]).id == "plain"


def test_a_word_that_many_use_decides_only_when_alone():
    assert identify_dialect(["rl/ess", "reward", "entropy"]).id == "pipelinerl"
    assert identify_dialect(["reward"]).id == "plain"


def test_equal_claims_ask_for_a_choice():
    with pytest.raises(UnknownDialectError, match="fit pipelinerl, plain equally well"):
        identify_dialect(["rl/ess", "ess.total.token"])


def test_an_ambiguous_word_is_explained():
    with pytest.raises(UnknownDialectError, match="'kl' alone may be to a reference model"):
        identify_dialect(["kl"])


def test_no_dialect_gives_a_key_twice():
    for dialect in dialects():
        raw = [key.raw for key in (*dialect.keys, *dialect.aliases)]
        assert len(raw) == len(set(raw))
        assert not set(raw) & set(dialect.hints)


@pytest.fixture
def twins(monkeypatch):
    """Two frameworks that log the same words and spell their settings differently."""
    keys = (Key(raw="x/kl", quantity="kl.total.k1"),)
    both = tuple(
        Dialect(id=name, title=name.title(), old_is="", keys=keys, config={f"{name}.temp": "sampling.temperature"}) for name in "ab"
    )
    monkeypatch.setattr(identify, "dialects", lambda: both)


@pytest.mark.usefixtures("twins")
def test_settings_decide_among_equals_and_that_is_said():
    with pytest.raises(UnknownDialectError, match=r"fit a, b equally well; name the dialect \(--dialect .\)\. All of them know x/kl"):
        choose_dialect(["x/kl"])
    choice = choose_dialect(["x/kl"], {"b.temp": 1.0})
    assert (choice.dialect.id, choice.why) == (
        "b",
        "B writes 1 of the 1 keys: x/kl; the next, A, knows as many; the settings decided (b.temp)",
    )
    assert choose_dialect(["x/kl"], {"framework.name": "A"}).dialect.id == "a"


def test_why_names_the_keys_and_the_next_dialect():
    assert choose_dialect(["rl/ess", "rl/reward", "ess.total.token"]).why.startswith(
        "PipelineRL writes 2 of the 3 keys: rl/ess, rl/reward; the next,"
    )


def test_an_address_is_one_only_with_a_scheme_that_a_reader_has(tmp_path):
    assert address_reader("wandb:entity/project/run").id == "wandb_api"
    assert address_reader("C:\\runs\\log.csv") is None
    assert address_reader("s3:bucket/key") is None
    assert address_reader(str(tmp_path)) is None
