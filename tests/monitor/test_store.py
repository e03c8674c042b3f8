import os

import pytest

from ingest.dialect import Key
from ingest.errors import ReadError, TooLargeError
from ingest.user_mapping import UserMapping
from monitor import store


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("rl_kl.csv", "rl_kl.csv"),
        ("../../etc/passwd", "passwd"),
        ("..\\..\\boot.ini", "boot.ini"),
        (".hidden.csv", "hidden.csv"),
        ("a\x00b\n.csv", "a_b_.csv"),
        ("chart (1) = übel.csv", "chart_1_ubel.csv"),
        ("…", "file"),
        ("", "file"),
        ("-rf.csv", "rf.csv"),
        ("x" * 500 + ".parquet", "x" * 80 + ".parquet"),
    ],
)
def test_a_name_can_neither_leave_its_folder_nor_hide(name, safe):
    assert store.safe_name(name) == safe


def test_saved_files_come_back_whole_and_the_same_files_are_one_upload(tmp_path):
    files = [("b.csv", b"Step,x\n1,2\n"), ("a.csv", b"Step,y\n1,3\n")]
    first = store.save(files, tmp_path)
    again = store.save(list(reversed(files)), tmp_path)
    assert first == again
    assert [path.name for path in first.paths] == ["a.csv", "b.csv"]
    assert first.paths[1].read_bytes() == b"Step,x\n1,2\n"
    assert store.uploads(tmp_path) == (first,)
    assert first.title == "a.csv and 1 more"
    assert first.size == 22


def test_other_content_under_one_name_is_another_upload_and_never_overwrites(tmp_path):
    one, two = store.save([("a.csv", b"1")], tmp_path), store.save([("a.csv", b"2")], tmp_path)
    assert one.id != two.id
    assert one.paths[0].read_bytes() == b"1"


def test_two_files_of_one_name_in_one_upload_are_both_kept(tmp_path):
    upload = store.save([("a.csv", b"1"), ("x/a.csv", b"2"), ("a.csv", b"1")], tmp_path)
    assert {path.name: path.read_bytes() for path in upload.paths} == {"a.csv": b"1", "a-2.csv": b"2"}


def test_a_write_that_fails_leaves_nothing_behind(tmp_path, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        store.save([("a.csv", b"1")], tmp_path)
    assert store.uploads(tmp_path) == ()
    assert list((tmp_path / "uploads").iterdir()) == []


@pytest.mark.parametrize(
    ("bound", "value", "word"), [("MAX_FILE_BYTES", 3, "in a file"), ("MAX_FILES", 1, "at once"), ("MAX_STORE_BYTES", 7, "of uploads")]
)
def test_each_bound_is_named_when_it_is_passed(tmp_path, monkeypatch, bound, value, word):
    monkeypatch.setattr(store, bound, value)
    with pytest.raises(TooLargeError, match=word):
        store.save([("a.csv", b"1234"), ("b.csv", b"1234")], tmp_path)
    assert store.uploads(tmp_path) == ()


@pytest.mark.parametrize("files", [[], [("a.csv", b"")]])
def test_nothing_is_an_error_with_a_remedy(tmp_path, files):
    with pytest.raises(ReadError, match="Export it again"):
        store.save(files, tmp_path)


def test_remove_deletes_one_upload_and_refuses_anything_that_is_no_id(tmp_path):
    kept, gone = store.save([("a.csv", b"1")], tmp_path), store.save([("b.csv", b"2")], tmp_path)
    store.remove(gone.id, tmp_path)
    store.remove(gone.id, tmp_path)  # another session was faster
    assert store.uploads(tmp_path) == (kept,)
    for wrong in ("", "..", "../uploads", kept.id + "/..", str(tmp_path)):
        with pytest.raises(ValueError, match="not the id"):
            store.remove(wrong, tmp_path)
    assert store.uploads(tmp_path) == (kept,)


def test_a_folder_is_kept_with_its_shape_under_safe_names(tmp_path):
    run = tmp_path / "my run"
    (run / "tokens" / "step=0").mkdir(parents=True)
    (run / "steps.jsonl").write_text("{}")
    (run / "tokens" / "step=0" / "rank=0.parquet").write_text("PAR1")
    (run / "link").symlink_to("/etc/hostname")
    upload = store.save_paths([run], tmp_path / "home", name="= a\n name")
    inside = [str(path.relative_to(upload.files)) for path in upload.paths]
    assert inside == ["steps.jsonl", "tokens/step_0/rank_0.parquet"]
    assert (upload.files.name, upload.whole, upload.title) == ("my_run", True, "= a\n name")
    assert store.uploads(tmp_path / "home") == (upload,)


def test_files_from_several_folders_are_one_upload(tmp_path):
    one, two = tmp_path / "a" / "x.csv", tmp_path / "b" / "x.csv"
    for path in (one, two):
        path.parent.mkdir()
        path.write_text(str(path.parent.name))
    upload = store.save_paths([one, two], tmp_path / "home")
    assert {path.name: path.read_text() for path in upload.paths} == {"x.csv": "a", "x-2.csv": "b"}
    assert not upload.whole


def test_a_file_keeps_its_own_name_where_the_stored_one_differs(tmp_path):
    own = 'chart (1) = übel "x" \x7f\udc80.csv'
    upload = store.save([(f"C:\\logs\\{own}", b"1"), ("plain.csv", b"2")], tmp_path)
    assert upload.names == (("chart_1_ubel_x_.csv", own.replace("\udc80", "?")),)
    assert [upload.own(path.name) for path in upload.paths] == [own.replace("\udc80", "?"), "plain.csv"]
    assert upload.title == f"{own} and 1 more".replace("\udc80", "?")
    assert store.uploads(tmp_path) == (upload,)


def test_an_upload_can_be_renamed_and_stays_what_it_is(tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    (run / "steps.jsonl").write_text("{}")
    whole = store.save_paths([run], tmp_path / "home")
    store.rename(whole.id, "mine", tmp_path / "home")
    (again,) = store.uploads(tmp_path / "home")
    assert (again.title, again.whole) == ("mine", True)
    odd = store.save([("a b.csv", b"1")], tmp_path / "home")
    store.rename(odd.id, "odd", tmp_path / "home")
    store.rename(odd.id, "", tmp_path / "home")
    assert store.uploads(tmp_path / "home")[1].title == "a b.csv"
    with pytest.raises(ValueError, match="not the id"):
        store.rename("../x", "mine", tmp_path / "home")


def test_a_mapping_lies_beside_the_files_and_is_none_of_them(tmp_path):
    first, second = store.save([("a.csv", b"1")], tmp_path), store.save([("b.csv", b"2")], tmp_path)
    assert store.mapping_of(first) is None
    mapping = UserMapping(keys=(Key(raw="k", quantity="reward.mean", sign=-1),), dialect="plain")
    path = store.save_mapping(first.id, mapping, tmp_path)
    assert store.mapping_of(first) == UserMapping(keys=mapping.keys, dialect="plain", path=str(path))
    assert store.uploads(tmp_path) == (first, second), "a later mapping does not move an upload in the list"
    with pytest.raises(ValueError, match="not the id"):
        store.save_mapping("../x", mapping, tmp_path)


def test_home_is_moved_by_the_environment(monkeypatch):
    monkeypatch.delenv(store.HOME_VARIABLE, raising=False)
    assert str(store.home()) == ".ratiometer"
    monkeypatch.setenv(store.HOME_VARIABLE, "/data/rm")
    assert str(store.home()) == "/data/rm"
