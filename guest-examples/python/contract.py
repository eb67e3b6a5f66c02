"""The contract guest in Python: one small behaviour for each command word.

The host's tests run it in every language. A payload's first line is a word with its arguments;
everything behind the line is data.
"""

import json
import time
from dataclasses import asdict

import wasmq_task
from wasmq_task import Permanent, Retryable, RetryAfter, task


def handle(invocation, payload):
    line, _, data = payload.partition(b"\n")
    word, *arguments = line.decode().split(" ")
    match word, arguments:
        case "echo", []:
            return data
        case "facts", []:
            return json.dumps(asdict(invocation)).encode()
        case "attempt", []:
            return str(wasmq_task.attempt_number()).encode()
        case "retryable", [code, *message]:
            raise Retryable(code, " ".join(message))
        case "retry-after", [delay_ms, code, *message]:
            raise RetryAfter(int(delay_ms), code, " ".join(message))
        case "permanent", [code, *message]:
            raise Permanent(code, " ".join(message), details=f"details of {code}")
        case "exception", message:
            outer(" ".join(message))
        case "log", []:
            wasmq_task.log("hello from the guest", language="python")
            wasmq_task.progress(1, 2, "half")
            return b"logged"
        case "follow-up", [task_name, delay_ms]:
            return follow_up(invocation, task_name, int(delay_ms), data)
        case "cancelled", []:
            wait_for_cancellation()
        case "loop", []:
            while True:
                pass
        case "memory", []:
            eat_memory()
        case "large", [size]:
            return b"x" * int(size)
        case _:
            raise Permanent("unknown-command", f"there is no command {word!r}")


def outer(message):
    inner(message)


def inner(message):
    raise RuntimeError(message)


def follow_up(invocation, task_name, delay_ms, payload):
    try:
        return wasmq_task.enqueue(task_name, payload, delay_ms, {"parent": invocation.id}).encode()
    except ValueError as error:
        raise Permanent("follow-up-refused", str(error)) from None


def wait_for_cancellation():
    while not wasmq_task.cancelled():
        time.sleep(0.01)
    raise Retryable("cancelled", "stopped early")


def eat_memory():
    eaten = []
    while True:
        eaten.append(b"x" * 2**20)


Handler = task(handle)
