"""Files of torch.save: the token dumps of slime, and of verl and SkyRL once converted. Nothing in them is executed.

Only `torch.load(weights_only=True)` reads them. What is a pickle is refused, with the few lines that make plain tensors of it where
it was written. Sources: slime/observability/train_data_utils.py, slime/utils/train_dump_utils.py, verl/utils/skip/rollout_skip.py.
"""

from __future__ import annotations

import importlib
import re
import zipfile
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import pyarrow as pa

from ingest._bounds import MAX_ROW_GROUP_BYTES
from ingest.errors import ReadError, TooLargeError
from ingest.reader import Reader
from ingest.readers._files import is_inside
from ingest.readers._responses_table import Misfit, Response, table
from ingest.readers._tally import Tally
from ingest.readers._torch_dumps import Budget, has_step, is_known, keys, responses
from ingest.run import ProblemKind, RawLog, ReadProblem
from ingest.tokens import TokenPiece, token_log

_PICKLE = re.compile(rb"\x80[\x02-\x05]")
_SAVED = "data.pkl"  # what torch.save calls the description of the tensors, in a folder of its own
_MAX_DESCRIPTION = 64 * 2**20  # values that are no tensors are read one by one: four million numbers
_SAFE_TORCH = (2, 6)  # CVE-2025-32434: before, weights_only could be got round
_DUMPS = re.compile(r"(?:\w*_)?\d{1,15}(?:_\d{1,6})?(?:\.plain)?\.pt\Z")  # one file a step, or one for each of its ranks
_NUMBER = re.compile(r"(?:\A|_)(\d{1,15})(?:_\d+)?\Z")
_OLD = "slime's log_probs are the trainer's at the start of the step, or those of its training pass where they were not computed again"

CONVERT = """\
import dataclasses, enum, pickle, torch
def plain(x):
    if isinstance(x, torch.Tensor):
        return [plain(row) for row in x.unbind()] if x.is_nested else x.detach().cpu().clone()
    if hasattr(x, "non_tensor_batch"):
        x = {{**dict(x.batch.items()), **x.non_tensor_batch, **x.meta_info}}
    if dataclasses.is_dataclass(x):
        x = vars(x)
    if hasattr(x, "items"):
        return {{str(key): plain(value) for key, value in x.items()}}
    x = x.value if isinstance(x, enum.Enum) else x.tolist() if hasattr(x, "tolist") else x
    if isinstance(x, (list, tuple, set)):
        return [plain(value) for value in x]
    return x if type(x) in (bool, int, float, str, type(None)) else str(x)
torch.save(plain({load}), {target!r})
"""
_LOADS = {True: "torch.load({name!r}, map_location='cpu', weights_only=False)", False: "pickle.load(open({name!r}, 'rb'))"}


def is_torch_zip(path: Path) -> bool:
    """Whether a zip file is one of torch.save."""
    try:
        with zipfile.ZipFile(path) as file:
            return any(name.count("/") == 1 and name.endswith(f"/{_SAVED}") for name in file.namelist())
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return False


def _objection(path: Path) -> str | None:
    if path.is_dir():
        return None if _files(path) else "the folder is not one of .pt files that are named by their steps"
    with path.open("rb") as file:
        head = file.read(4)
    if head == b"PK\x03\x04":
        return None if is_torch_zip(path) else "it is a zip file, but not of torch.save"
    return None if _PICKLE.match(head) else "it begins like neither torch.save nor a pickle"


def _files(folder: Path) -> list[Path]:
    """The dumps of a folder in the order of their steps; none where it holds other .pt files too, as a folder of weights does."""
    found = [path for path in folder.glob("*.pt") if path.is_file() and is_inside(path, folder)]
    if not all(_DUMPS.match(path.name) for path in found):
        return []
    return sorted(found, key=lambda path: ([int(number) for number in re.findall(r"\d+", path.name)], path.name))


def _read(path: Path) -> tuple[RawLog, ...]:
    """Look into one file, or into the first of a folder: the others are opened when their tokens are read."""
    files = _files(path) if path.is_dir() else [path]
    first = files[0]
    dump = _loaded(first)
    _check_known(first, dump)
    tokens, problems = _row_group(first, 0, dump)
    if not tokens.num_rows:
        found = f"none ({problems[0].what if problems else 'no response'}); it has {keys(dump)}"
        raise ReadError(str(first), expected="responses with tokens", found=found, remedy="Was the dump finished?")
    notes = [] if has_step(dump) else [_step_note(first)]
    if "samples" in dump or "rollout_data" in dump:
        notes += ["steps are rollout ids, from 0", *([_OLD] if "old_logprob" in tokens.column_names else [])]
    said = tuple(ReadProblem(path=str(path), place="", what=what, kind=ProblemKind.NOTE) for what in notes)
    log = token_log(_piece(file, tokens.column_names) for file in files)
    return (RawLog(name=path.stem, path=str(path), container=READER.id, tokens=log, problems=said),)


def _check_known(path: Path, dump: object) -> None:
    if is_known(dump):
        return
    expected = "a token dump of slime, or one of verl or SkyRL, with the engine's log-probabilities (rollout_log_probs)"
    remedy = "Rename the keys, or write a token log as docs/token_log.md describes it."
    raise ReadError(str(path), expected=expected, found=keys(dump), remedy=remedy)


def _piece(path: Path, columns: list[str]) -> TokenPiece:
    stat = path.stat()
    return TokenPiece(
        path=path,
        rename={f"{name} of the dump": name for name in columns},
        row_groups=1,
        rows=None,
        size=stat.st_size,
        mtime_ns=stat.st_mtime_ns,
        read=_row_group,
    )


def _row_group(path: Path, _index: int, dump: Any = None) -> tuple[pa.Table, tuple[ReadProblem, ...]]:  # noqa: ANN401 - any dump
    """Read all responses of a file, which is one step; a dump that is loaded already is not loaded again."""
    loaded = _loaded(path) if dump is None else dump
    _check_known(path, loaded)
    wrong: dict[str, Tally] = {}
    found: list[Response] = []
    for index, response in enumerate(responses(loaded, Budget(path=path, size=path.stat().st_size), _step_of(path))):
        if isinstance(response, Misfit):
            wrong.setdefault(str(response), Tally()).add(f"response {index}")
        else:
            found.append(response)
    tokens, said = table(found, str(path), "whole file")
    return tokens, (*(problem for what, tally in wrong.items() for problem in tally.problems(str(path), what)), *said)


def _step_of(path: Path) -> int | None:
    """The step a file's name, or its folder's, ends in: `12.pt`, `train_12_0.pt`, `12/gen_batch.pt`."""
    match = next((match for name in (path.stem.split(".")[0], path.parent.name) if (match := _NUMBER.search(name))), None)
    return int(match[1]) if match else None


def _step_note(path: Path) -> str:
    step = _step_of(path)
    return "nothing says the step; 0 stands for it" if step is None else f"the step, {step}, is taken from the name of the file or folder"


def _loaded(path: Path) -> Any:  # noqa: ANN401 - any dump
    """Load plain values and tensors.

    Raises:
        ReadError: torch is missing, or the file is a pickle, damaged, or unpacks to more than its size.
    """
    if not zipfile.is_zipfile(path):
        raise _refused(path, "a pickle, which can run any program when it is loaded", saved_by_torch=False)
    _check_stored(path)
    torch = _torch(path)
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except UnpicklingError as refused:
        why = re.search(r"GLOBAL ([\w.]+)", str(refused))
        named = f" ({why[1]})" if why else ""
        raise _refused(path, f"objects{named}, which can run any program when they are loaded", saved_by_torch=True) from refused
    except Exception as broken:
        remedy = "Was the file copied whole? Save it again."
        found = f"one that torch refuses ({' '.join(str(broken).split())[:200]})"
        raise ReadError(str(path), expected="a whole file of torch.save", found=found, remedy=remedy) from broken


def _torch(path: Path) -> Any:  # noqa: ANN401 - a module
    """The package torch, a large one that only these files need.

    Raises:
        ReadError: it is not installed, or too old to refuse every program.
    """
    wanted = f"the package torch, {'.'.join(map(str, _SAFE_TORCH))} or later, to read this"
    remedy = "Install it with 'pip install torch', or convert the dump to Parquet where torch is."
    try:
        torch = importlib.import_module("torch")
    except ImportError as missing:
        raise ReadError(str(path), expected=wanted, found="none installed", remedy=remedy) from missing
    if tuple(int(part) for part in re.findall(r"\d+", str(torch.__version__))[:2]) < _SAFE_TORCH:
        raise ReadError(str(path), expected=wanted, found=str(torch.__version__), remedy=remedy)
    return torch


def _check_stored(path: Path) -> None:
    """Look at the directory of the file first: torch.save compresses nothing, so what unpacks to more was not made by it.

    Raises:
        TooLargeError: it would unpack to more than its size, or is too large to be read at once.
    """
    size = path.stat().st_size
    with zipfile.ZipFile(path) as file:
        unpacked = sum(member.file_size for member in file.infolist())
        described = max((member.file_size for member in file.infolist() if member.filename.endswith(_SAVED)), default=0)
    if unpacked > size or size > MAX_ROW_GROUP_BYTES or described > _MAX_DESCRIPTION:
        expected = (
            f"uncompressed tensors of at most {MAX_ROW_GROUP_BYTES // 2**30} GiB, and {_MAX_DESCRIPTION // 2**20} MiB of other values"
        )
        found = f"{unpacked:,} bytes in a file of {size:,}, {described:,} of them other values"
        raise TooLargeError(str(path), expected=expected, found=found, remedy="Save one step per file, lists of numbers as tensors.")


def _refused(path: Path, found: str, *, saved_by_torch: bool) -> ReadError:
    load = _LOADS[saved_by_torch].format(name=path.name)
    snippet = CONVERT.format(load=load, target=f"{path.stem}.plain.pt")
    remedy = f"Make plain values of it where it was written, by running this there, and open {path.stem}.plain.pt:\n{snippet}"
    return ReadError(str(path), expected="tensors and plain values", found=found, remedy=remedy)


READER = Reader(id="torch_file", title="torch.save file", objection=_objection, read=_read, searches=True)
