from pathlib import Path

import pytest
from streamlit.util import calc_hash

from ingest.load import load
from monitor import store
from monitor.__main__ import main
from monitor.pages import upload
from monitor.pages.upload import groups
from tests.ingest.container_samples import ADDRESS, MAKERS, TOKENS
from tests.monitor.pages.conftest import write_run

CSV = (Path(__file__).resolve().parents[2] / "data" / "wandb_csv" / "ess_crossings.csv").read_bytes()
JSONL = b'{"step": 1, "reward.mean": 0.5, "mystery": 1}\n{"step": 2, "reward.mean": 0.75, "mystery": 2}\n'


def turn_to(app, url_path):
    app._page_hash = calc_hash(url_path)  # switch_page knows pages that are files only
    return app.run()


def drop(app, *files):
    turn_to(app.run(), "upload")
    (box,) = app.get("file_uploader")
    box.set_value([(name, content, "application/octet-stream") for name, content in files]).run()
    assert not app.exception
    return app


def said(elements):
    return " ".join(each.value for each in elements).replace("\\", "")


def test_an_export_becomes_runs_that_are_in_the_overlay_and_selected(app, figure):
    drop(app, ("ess.csv", CSV))
    assert "ess.csv: 3 runs read and selected (V0 reference, broken V1, fixed V1)." in said(app.success)
    turn_to(app, "compare")
    assert not app.exception
    assert app.multiselect(key="runs").value == ["v1_broken", "v1_fixed", "V0-reference", "broken-V1", "fixed-V1"]
    rows = app.table[0].value.to_dict("records")
    assert "broken V1" in {row["run"] for row in rows}
    assert "broken V1 (ESS of the total)" in figure(app)


def test_the_upload_box_is_empty_afterwards_and_the_file_is_kept(app):
    drop(app, ("ess.csv", CSV))
    assert app.get("file_uploader")[0].value == []
    (kept,) = store.uploads()
    assert kept.paths[0].read_bytes() == CSV


def test_token_log_parts_are_one_run(app, tmp_path):
    folder = write_run(tmp_path / "theirs", seed=8, dips=True)
    drop(app, *((path.name, path.read_bytes()) for path in sorted(folder.iterdir())))
    assert "1 run read and selected (theirs)" in said(app.success)
    turn_to(app, "compare")
    assert "theirs" in app.multiselect(key="runs").value


def test_what_is_not_mapped_is_listed(app):
    drop(app, ("steps.jsonl", JSONL))
    assert "1 run read and selected (steps)" in said(app.success)
    cells = said_table(app.table[0])
    assert "mystery" in cells
    assert "unmapped" in cells


def said_table(table):
    return " ".join(str(cell) for row in table.value.to_dict("records") for cell in row.values()).replace("\\", "")


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("notes.csv", b"hello;there", "notes.csv: no known kind of log"),
        ("torn.parquet", b"PAR1", "torn.parquet: expected a whole Parquet file"),
        ("empty.csv", b"", "empty.csv: expected a file with content"),
        ("binary.jsonl", bytes(range(256)), "binary.jsonl"),
        ("config.toml", b"a = 1", "config.toml"),
    ],
)
def test_a_bad_file_is_one_clear_sentence_and_is_not_kept(app, name, content, sentence):
    drop(app, (name, content))
    assert sentence in said(app.error)
    assert "Traceback" not in said(app.error)
    assert "uploads/" not in said(app.error)
    assert store.uploads() == ()


def test_a_bad_file_does_not_take_the_good_ones_with_it(app):
    drop(app, ("ess.csv", CSV), ("torn.jsonl", b"{broken"))
    assert "3 runs read" in said(app.success)
    assert "torn.jsonl" in said(app.error)


def test_too_large_names_the_bound(app, monkeypatch):
    monkeypatch.setattr(store, "MAX_FILE_BYTES", 100)
    drop(app, ("ess.csv", CSV))
    assert "at most 0 MB in a file" in said(app.error)


def test_an_unforeseen_error_is_a_sentence(app, monkeypatch):
    def fail(*_, **__):
        raise ZeroDivisionError("secret detail")

    app.run()
    monkeypatch.setattr("monitor.pages._library.load", fail)
    drop(app, ("ess.csv", CSV))
    assert "did not foresee" in said(app.error)
    assert "secret detail" not in said(app.error)


def test_a_full_disk_is_a_sentence(app, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(upload.store, "save", full)
    drop(app, ("ess.csv", CSV))
    assert "No space left on device" in said(app.error)


def test_an_upload_can_be_removed(app):
    drop(app, ("ess.csv", CSV))
    (button,) = [each for each in app.button if each.label == "Remove"]
    button.click().run()
    assert store.uploads() == ()
    turn_to(app, "compare")
    assert app.multiselect(key="runs").value == ["v1_broken", "v1_fixed"]


def test_the_name_of_a_sample_is_told_apart(app):
    drop(app, ("v1_broken.jsonl", JSONL))
    turn_to(app, "compare")
    options = app.multiselect(key="runs").options
    assert "v1_broken" in options
    assert "v1_broken (v1_broken.jsonl)" in options
    assert len(app.multiselect(key="runs").value) == 3


UNKNOWN = b"".join(b'{"step": %d, "zz/gap": -0.%d, "zz/other": 7}\n' % (step, step) for step in (1, 2, 3))


def meaning(app, key):
    (box,) = [each for each in app.selectbox if each.label.replace("\\", "") == f"Meaning of {key}"]
    return box


def save(app):
    (button,) = [each for each in app.button if each.label == "Save"]
    return button.click().run()


def test_a_log_that_no_dialect_knows_is_kept_and_its_keys_can_be_named(app):
    drop(app, ("steps.jsonl", UNKNOWN))
    assert "None of the logged keys is known: zz/gap, zz/other" in said(app.warning)
    assert "3 values: -0.1, -0.2, -0.3; from -0.3 to -0.1" in said(app.markdown)
    meaning(app, "zz/gap").select("kl.total.k1")
    (negative, *_) = [each for each in app.checkbox if each.label == "negative"]
    negative.check()
    save(app)
    assert not app.exception
    assert "1 run read and selected (steps)" in said(app.success)
    (kept,) = store.uploads()
    assert kept.mapping_path.read_text() == '[keys."zz/gap"]\nquantity = "kl.total.k1"\nsign = -1\n'
    assert kept.mapping_path.read_text() in [code.value + "\n" for code in app.code]
    (run,) = load(kept.paths[0], mapping=store.mapping_of(kept))
    assert [row["value"] for row in run.scalars.to_pylist()] == [0.1, 0.2, 0.3]
    turn_to(app, "compare")
    assert "steps" in app.multiselect(key="runs").value


def test_a_key_that_nobody_knows_beside_others_can_be_named_and_unnamed(app):
    drop(app, ("steps.jsonl", JSONL))
    meaning(app, "mystery").select("entropy.mean")
    save(app)
    assert "unmapped" not in " ".join(said_table(table) for table in app.table)
    meaning(app, "mystery").select("not mapped")
    save(app)
    (kept,) = store.uploads()
    assert store.mapping_of(kept).keys == ()
    assert "mystery" in said_table(app.table[0])


def test_the_framework_can_be_named(app):
    drop(app, ("steps.jsonl", b'{"step": 1, "rl/ess": 0.5, "ess.total.token": 0.25}\n'))
    assert "fit pipelinerl, plain equally well" in said(app.warning)
    (box,) = [each for each in app.selectbox if each.label == "Framework"]
    box.select("plain")
    save(app)
    assert "1 run read" in said(app.success)
    assert "named by the user" in said(app.caption)


def test_a_kept_upload_can_be_named_later(app):
    drop(app, ("steps.jsonl", JSONL))
    app.session_state[upload.OUTCOMES] = []
    app.run()
    assert not [each for each in app.button if each.label == "Save"]
    next(each for each in app.button if each.label == "Edit").click().run()
    assert meaning(app, "mystery").value == "not mapped"


def test_of_many_keys_some_are_drawn_and_the_others_are_found(app):
    many = ", ".join(f'"zz/key{number:03}": {number}' for number in range(60))
    drop(app, ("steps.jsonl", b'{"step": 1, %s}\n' % many.encode()))
    assert len([each for each in app.selectbox if each.label.startswith("Meaning")]) == 25
    (find,) = [each for each in app.text_input if each.label.startswith("Find")]
    find.set_value("key05").run()
    assert len([each for each in app.selectbox if each.label.startswith("Meaning")]) == 10


def test_a_hostile_key_is_text(app):
    drop(app, ("steps.jsonl", b'{"step": 1, "<img src=x>[a](http://b) $x$": 1}\n'))
    assert not any("](http" in each.value for each in app.markdown)


def test_files_that_are_one_log_stay_together():
    a, b, p, q, t, j = (("a.csv", b""), ("B.CSV", b""), ("p.parquet", b""), ("q.parquet", b""), ("run.toml", b""), ("s.jsonl", b""))
    assert groups([a, p, b, q, t, j]) == [[a, b], [p, q, t, j]]
    assert groups([j, a]) == [[a], [j]]
    assert groups([]) == []
    e, f, w, c = (("events.out.tfevents.1.h.0", b""), ("events.out.tfevents.2.h.0", b""), ("run-a.wandb", b""), ("config.yaml", b""))
    assert groups([e, w, f, c]) == [[e, f], [w, c]]
    one, two = ("train_data_step1.jsonl", b""), ("train_data_step2.jsonl", b"")
    assert groups([one, j, two]) == [[one, two], [j]]


def sweep(count):
    """A chart export of so many runs."""
    names = ",".join(f'"sweep_{number:03} - rl/ess"' for number in range(count))
    return f'"Step",{names}\n1{",0.5" * count}\n2{",0.5" * count}\n'.encode()


def test_more_runs_than_the_overlay_holds_are_read_and_the_first_are_added(app):
    drop(app, ("sweep.csv", sweep(100)))
    assert "sweep.csv: 100 runs read; the overlay holds 12: the first 12 were added (sweep_000, " in said(app.success)
    assert "selected" not in said(app.success)
    assert "runs sweep_000, sweep_001, sweep_002, sweep_003, sweep_004, sweep_005 and 94 more" in said(app.markdown)
    turn_to(app, "compare")
    assert app.multiselect(key="runs").value == [f"sweep_{number:03}" for number in range(12)]
    assert "91 more runs are here and not shown" in said(app.caption)


def test_what_the_user_has_chosen_is_not_pushed_out(app, samples):
    mine = ["v1_broken", *(f"more{number:02}" for number in range(10))]
    for number, name in enumerate(mine[1:]):
        write_run(samples / name, seed=20 + number)
    app.query_params["runs"] = mine
    app.run()
    drop(app, ("ess.csv", CSV))
    assert "ess.csv: 3 runs read; the overlay holds 12: the first 1 was added (V0 reference)." in said(app.success)
    drop(app, ("sweep.csv", sweep(2)))
    assert "sweep.csv: 2 runs read (sweep_000, sweep_001); the overlay holds 12 and is full: none was added." in said(app.success)
    turn_to(app, "compare")
    assert not app.exception
    assert app.multiselect(key="runs").value == [*mine, "V0-reference"]


def rows(app):
    return [each.value.replace("\\", "") for each in app.markdown if " · added " in each.value]


def test_files_of_one_name_are_told_apart(app):
    drop(app, ("steps.jsonl", JSONL))
    drop(app, ("steps.jsonl", JSONL + b'{"step": 3, "reward.mean": 0.5}\n'))
    assert "(steps (2))" in said(app.success)
    assert [row.split("  \n")[0] for row in rows(app)] == ["**steps.jsonl** · run steps", "**steps.jsonl** · run steps (2)"]
    (name,) = [each for each in app.text_input if each.label == "Name"]
    name.set_value("lr 1e-5").run()
    assert "lr 1e-5: 1 run read and selected (lr 1e-5)" in said(app.success)
    assert rows(app)[1].startswith("**lr 1e-5** · run lr 1e-5 ")
    turn_to(app, "compare")
    assert {"steps", "lr 1e-5"} <= set(app.multiselect(key="runs").options)
    assert len(app.multiselect(key="runs").value) == 4


def test_an_upload_is_listed_with_its_size_and_its_own_name(app):
    drop(app, ("meine Läufe *1*.jsonl", JSONL))
    assert "meine Läufe *1*.jsonl: 1 run read" in said(app.success)
    (row,) = rows(app)
    assert row.startswith("**meine Läufe *1*.jsonl** · run meine_Laufe_1_ ")
    assert f"kept as meine_Laufe_1_.jsonl · {len(JSONL)} bytes · added 2" in row


def test_every_bad_file_of_a_batch_has_its_own_sentence(app):
    drop(app, ("ess.csv", CSV), ("blank.csv", b"\n"), ("notes.csv", b"hello;there"), ("torn.jsonl", b"{broken"), ("empty.jsonl", b""))
    assert "ess.csv: 3 runs read and selected" in said(app.success)
    assert len(app.success) == 1
    told = sorted(each.value.replace("\\", "") for each in app.error)
    assert [sentence.partition(":")[0] for sentence in told] == ["blank.csv", "empty.jsonl", "notes.csv", "torn.jsonl"]
    assert told[0] == "blank.csv: expected a file with content, found nothing in it. Export it again and upload that file."
    (kept,) = store.uploads()
    assert [path.name for path in kept.paths] == ["ess.csv"]


def test_a_torn_part_of_a_token_log_leaves_the_others(app, tmp_path):
    part = (write_run(tmp_path / "theirs", seed=8) / "tokens.parquet").read_bytes()
    drop(app, ("part-0.parquet", part), ("part-1.parquet", b"PAR1"))
    assert "1 run read and selected (part-0)" in said(app.success)
    assert [each.value.replace("\\", "").partition(":")[0] for each in app.error] == ["part-1.parquet"]


def test_files_that_only_fail_together_are_one_sentence_that_names_them(app, monkeypatch):
    monkeypatch.setattr(store, "MAX_FILES", 1)
    drop(app, ("a.csv", CSV), ("b.csv", CSV + b"\n"))
    (error,) = app.error
    assert "at most 1 files at once" in error.value
    assert "Not kept with it: a.csv, b.csv" in error.value.replace("\\", "")
    assert store.uploads() == ()


def test_an_upload_of_the_same_files_outlives_a_batch_with_a_bad_one(app):
    drop(app, ("ess.csv", CSV))
    drop(app, ("ess.csv", CSV), ("notes.csv", b"hello;there"))
    assert len(store.uploads()) == 1
    assert "3 runs read and selected" in said(app.success)


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("run.toml", b"seed = 1", "run.toml: settings only; drop it together with its log (a step log, Parquet parts)."),
        ("my run.toml", b"seed = 1", "my run.toml: settings only; drop it together with its log (a step log, Parquet parts)."),
        ("torn.toml", b"seed =", "torn.toml: no known kind of log. What can be read is listed at the side."),
        ("notes.csv", b"hello;there", "notes.csv: no known kind of log (no CSV metric log: none of its columns (hello, there) is a step"),
    ],
)
def test_what_nobody_reads_is_told_in_a_few_words(app, name, content, sentence):
    drop(app, (name, content))
    (error,) = app.error
    told = error.value.replace("\\", "")
    assert told.startswith(sentence)
    assert "TensorBoard" not in told


def test_the_way_on_stands_above_what_was_not_mapped(app):
    many = ", ".join(f'"zz/key{number:03}": {number}' for number in range(60))
    drop(app, ("steps.jsonl", b'{"step": 1, "reward.mean": 1, %s}\n' % many.encode()))
    order = [each.label if each.type == "button" else each.type for each in app.main if each.type in {"button", "table"}]
    assert order.index("Show in the overlay") < order.index("table")
    assert "60 rows; the table scrolls" in said(app.caption)


def test_a_log_without_known_keys_is_named_without_our_folder_on_the_compare_page(app):
    drop(app, ("steps.jsonl", UNKNOWN))
    turn_to(app, "compare")
    assert "steps.jsonl is no run yet: none of its keys is known" in said(app.caption).replace("\\", "")


@pytest.mark.parametrize("container", sorted(name for name, maker in MAKERS.items() if maker.kind != ADDRESS))
def test_every_container_can_be_dropped(app, tmp_path, container):
    maker = MAKERS[container]
    values = [[-0.5, -0.25]] * 2 if maker.kind == TOKENS else {"rl/ess": [0.5, 0.25]}
    path = maker.make(tmp_path, [1, 2], values)
    files = [each for each in sorted(path.rglob("*")) if each.is_file()] if path.is_dir() else [path]
    drop(app, *((file.name, file.read_bytes()) for file in files))
    assert not app.error
    assert "1 run read and selected" in said(app.success)


def test_an_upload_that_the_command_line_made_has_its_name_and_mapping(app, tmp_path):
    log = tmp_path / "steps.jsonl"
    log.write_bytes(UNKNOWN)
    mapping = tmp_path / "map.toml"
    mapping.write_text('[keys."zz/gap"]\nquantity = "kl.total.k1"\n')
    assert main(["ingest", str(log), "--name", "from the shell", "--map", str(mapping)]) == 0
    turn_to(app.run(), "compare")
    assert "from the shell" in app.multiselect(key="runs").options
