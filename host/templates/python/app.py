"""The task: lines such as `coffee,350` in, how many there are and their total as JSON out."""

# A task can import only what was imported when it was built. Python itself imports these late: for
# datetime.strptime, and for text in other encodings.
import _strptime  # noqa: F401
import encodings.cp1252
import encodings.latin_1
import encodings.utf_8_sig
import encodings.utf_16  # noqa: F401
import json
import re

from componentize_py_types import Err
from wit_world import exports
from wit_world.imports import types


class Handler(exports.Handler):
    def handle(self, invocation: types.Invocation, payload: bytes) -> bytes:
        try:
            text = payload.decode()
        except UnicodeDecodeError as error:
            raise permanent("not-text", f"the payload is not UTF-8: {error}") from error
        lines = text.replace("\r\n", "\n").split("\n")
        if lines[-1] == "":
            lines.pop()
        total = 0
        for number, line in enumerate(lines, start=1):
            amount = re.fullmatch("[^,]*,([0-9]{1,9})", line)
            if amount is None:
                raise permanent("bad-amount", f"line {number}: no amount of 1 to 9 digits")
            total += int(amount[1])
        return (json.dumps({"items": len(lines), "total": total}, separators=(",", ":")) + "\n").encode()


def permanent(code: str, message: str) -> Err:
    """A failure that another attempt cannot help. `Failure_Retryable` asks for another attempt."""
    return Err(types.Failure_Permanent(types.Problem(code, message, None)))
