"""What is printed commands no terminal and forges no line."""

import json
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from monitor.__main__ import main
from monitor.commands._command import dump
from monitor.commands._terminal import printable


@given(st.text())
def test_nothing_that_a_terminal_obeys_is_left_and_json_says_the_same(text):
    said = printable(text)
    assert all(unicodedata.category(letter) not in {"Cc", "Cs", "Zl", "Zp"} for letter in said)
    assert said.isprintable() or set(said) & set("\u200c\u200d") or any(unicodedata.category(letter)[0] in "ZC" for letter in said)
    assert json.loads(printable(dump({"text": text}, indent=None))) == {"text": text}


def test_characters_that_are_meant_to_be_read_stay():
    for text in ("日本語 ünï — 0.5 ≤ x", "हिन्दी", "a\u200db"):
        assert printable(text) == text
    assert printable("a\x1b[31m\nb\u202ec\x9bd\udcff\x7f") == "a\\u001b[31m\\nb\\u202ec\\u009bd\\udcff\\u007f"


def test_a_file_whose_name_commands_the_terminal(tmp_path, capfd, monkeypatch):
    monkeypatch.setenv("RATIOMETER_HOME", str(tmp_path / "home"))
    log = tmp_path / "esc\x1b[31mRED\nfake line.jsonl"
    log.write_text('{"step": 1, "ess.lag.token": 0.9}\n', encoding="utf-8")
    assert main(["watch", str(log), "--once"]) == 0
    out, err = capfd.readouterr()
    assert "\x1b" not in out + err
    assert "watching" in out
    assert not any(line.startswith("fake") for line in (out + err).splitlines())
    assert main(["watch", str(tmp_path / "no\x1b[31m"), "--once"]) == 2
    out, err = capfd.readouterr()
    assert "\x1b" not in out + err
