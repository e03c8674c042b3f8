"""What a run is called: its name, as far as an address, a file's name and a terminal can have it."""

import re
import unicodedata
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest._ids import ids_of
from ingest.run import RawLog

ANY = st.text(alphabet=st.characters(), max_size=200)


def ids(name, count=3):
    return list(islice(ids_of(RawLog(name=name, path="runs", container="")), count))


@pytest.mark.parametrize("name", ["日本語", "学習", "ünïcode-日本語", "हिन्दी", "עברית", "v1_broken", "lr=3e-4".replace("=", "-"), "٣"])
def test_letters_and_digits_of_all_scripts_stay(name):
    assert ids(name)[0] == name


def test_a_name_is_composed():
    assert ids(unicodedata.normalize("NFD", "ünï"))[0] == "ünï"


@given(ANY)
def test_an_id_is_safe_whatever_the_name(name):
    for run_id in ids(name):
        assert re.fullmatch(r"[^\W_].*", run_id)
        assert not re.search(r"[/\\:*?\"<>|\s&#%$`'.]\Z|[/\\:*?\"<>|\s&#%$`']", run_id)
        assert all(unicodedata.category(letter)[0] in "LMN" or letter in "-._" for letter in run_id)
        assert len(run_id) <= 70
        assert len(run_id.encode()) <= 200
        assert unicodedata.is_normalized("NFC", run_id)
    assert len(set(ids(name))) == 3


@given(st.text(alphabet=st.characters(max_codepoint=127), max_size=80))
def test_ids_of_ascii_names_are_what_they_were(name):
    assert ids(name)[0] == (re.sub(r"[^A-Za-z0-9._]+", "-", name).strip("-._")[:60] or "run")
