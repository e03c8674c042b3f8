"""A `.wandb` file written by the letter of the format, for shapes that today's wandb does not write and for damage at chosen places."""

import struct
from zlib import crc32

BLOCK = 32_768
HEADER = b":W&B\xe1\xbe\x00"


def varint(number):
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    content = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(content)) + content


def item(key, value_json=None, *, typed=b""):
    """One item; a tuple is a nested key, a text a plain one."""
    spelled = field(1, key) if isinstance(key, str) else b"".join(field(2, part) for part in key)
    return spelled + (field(16, value_json) if value_json is not None else typed)


def history(items, step=None):
    axis = b"" if step is None else field(2, field(1, step))
    return field(2, b"".join(field(1, each) for each in items) + axis)


def steps(count, keys=("rl/ess",), start=0):
    """History records as wandb-core writes them."""
    return [
        history([item((key,), repr(step + 0.5)) for key in keys] + [item(("_step",), str(step)), item(("_timestamp",), "1.764e+09")], step)
        for step in range(start, start + count)
    ]


def run(run_id="abc", name="", group="", config=b""):
    return field(17, field(1, run_id) + field(3, "proj") + field(4, config) + field(6, group) + field(8, name))


def config(values, number=1):
    return b"".join(field(number, item(key, value)) for key, value in values.items())


END = field(18, field(2, 1))


def file(records, *, origin=0, header=HEADER, numbered=True):
    """The bytes of a file; each record gets its number as wandb gives it."""
    out = bytearray(header)
    for number, record in enumerate(records, start=1):
        _append(out, field(1, number) + record if numbered else record, origin)
    return bytes(out)


def chunk(kind, content):
    """Type 1 is a whole record, 2 to 4 are its first, middle and last piece."""
    return struct.pack("<IHB", crc32(content, crc32(bytes([kind]))), len(content), kind) + content


def _append(out, content, origin):
    first = True
    while True:
        left = BLOCK - (len(out) - origin) % BLOCK
        if left < 7:
            out.extend(bytes(left))
            continue
        piece, content = content[: left - 7], content[left - 7 :]
        kind = (1 if first else 4) if not content else (2 if first else 3)
        out.extend(chunk(kind, piece))
        first = False
        if not content:
            return
