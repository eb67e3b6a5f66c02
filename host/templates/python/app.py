"""The task: lines such as `coffee,350` in, how many there are and their total as JSON out."""

import json
import re

from wasmq_task import Permanent, task


def handle(invocation, payload):
    try:
        text = payload.decode()
    except UnicodeDecodeError as error:
        raise Permanent("not-text", f"the payload is not UTF-8: {error}") from error
    lines = text.replace("\r\n", "\n").split("\n")
    if lines[-1] == "":
        lines.pop()
    total = 0
    for number, line in enumerate(lines, start=1):
        amount = re.fullmatch("[^,]*,([0-9]{1,9})", line)
        if amount is None:
            raise Permanent("bad-amount", f"line {number}: no amount of 1 to 9 digits")
        total += int(amount[1])
    return (json.dumps({"items": len(lines), "total": total}, separators=(",", ":")) + "\n").encode()


Handler = task(handle)
