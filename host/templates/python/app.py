"""The task: lines such as `coffee,350` in, how many there are and their total as JSON out."""

import json

from componentize_py_types import Err
from wit_world import exports
from wit_world.imports import types


class Handler(exports.Handler):
    def handle(self, invocation: types.Invocation, payload: bytes) -> bytes:
        try:
            text = payload.decode()
        except UnicodeDecodeError as error:
            raise permanent("not-text", f"the payload is not UTF-8: {error}") from error
        items = total = 0
        for number, line in enumerate(text.splitlines(), start=1):
            _, _, amount = line.partition(",")
            if not (amount.isascii() and amount.isdigit()):
                raise permanent("bad-amount", f'line {number}: "{amount}" is not an amount')
            items += 1
            total += int(amount)
        return (json.dumps({"items": items, "total": total}, separators=(",", ":")) + "\n").encode()


def permanent(code: str, message: str) -> Err:
    """A failure that another attempt cannot help. `Failure_Retryable` asks for another attempt."""
    return Err(types.Failure_Permanent(types.Problem(code, message, None)))
