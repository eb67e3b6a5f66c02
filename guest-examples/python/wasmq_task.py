"""What a wasmq task written in Python needs beside its own logic. Copy it next to your task.

    from wasmq_task import Permanent, task

    def handle(invocation, payload):
        if not payload:
            raise Permanent("empty", "the payload is empty")
        return payload.upper()

    Handler = task(handle)

Any other exception is a trap: Python writes its traceback to stderr, and wasmq keeps it.
"""

# A component can import only what was imported when it was built. Python imports these late, when
# datetime.strptime is called and when such text is decoded; so must a task's own late imports be made
# early.
import _strptime  # noqa: F401
import encodings.cp1252
import encodings.latin_1
import encodings.utf_8_sig
import encodings.utf_16  # noqa: F401
import linecache
import os
import sys
import traceback
from dataclasses import dataclass

from componentize_py_types import Err
from wit_world.imports import host, types


@dataclass(frozen=True)
class Invocation:
    """The facts of an invocation. They are the same in every attempt."""

    id: str
    task: str
    enqueued_at_ms: int
    replays: int
    max_attempts: int
    metadata: dict[str, str]


class Failure(Exception):
    """A failure in the task's own words: a short stable code and a sentence for a person.

    Raised `from` another exception, it carries that one's traceback as its details.
    """

    def __init__(self, code, message, details=None):
        super().__init__(f"{code}: {message}")
        self.code, self.message, self.details = code, message, details

    def _problem(self):
        details = self.details
        if details is None and self.__cause__ is not None:
            details = "".join(traceback.format_exception(self.__cause__))
        return types.Problem(self.code, self.message, details)


class Retryable(Failure):
    """Worth another attempt, after the backoff of the task's settings."""

    def _to_wit(self):
        return types.Failure_Retryable(self._problem())


class RetryAfter(Failure):
    """Worth another attempt, not earlier than in `delay_ms` milliseconds."""

    def __init__(self, delay_ms, code, message, details=None):
        super().__init__(code, message, details)
        self.delay_ms = delay_ms

    def _to_wit(self):
        return types.Failure_RetryAfter(types.DelayedProblem(self._problem(), self.delay_ms))


class Permanent(Failure):
    """Another attempt cannot help: the invocation becomes a dead task at once."""

    def _to_wit(self):
        return types.Failure_Permanent(self._problem())


def task(handle):
    """Makes the class that componentize-py looks for out of `handle(invocation, payload)`.

    The payload is `bytes`, and so is what it returns.
    """

    class Handler:
        def handle(self, invocation, payload):
            try:
                return _checked(handle(_facts(invocation), payload))
            except Failure as failure:
                raise Err(failure._to_wit()) from None

    _keep_sources()
    return Handler


def _keep_sources():
    """Keeps the lines of the task's own files for tracebacks: a component has no files.

    This runs at build time, and the memory of that moment is what a component starts with.
    """
    library = os.path.dirname(os.__file__)
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None) or library
        if not file.startswith(library):
            lines = linecache.getlines(file)
            # Without a time of change an entry is never dropped.
            linecache.cache[file] = (len(lines), None, lines, file)


def _facts(invocation):
    return Invocation(
        invocation.id,
        invocation.task,
        invocation.enqueued_at_ms,
        invocation.replays,
        invocation.max_attempts,
        dict(invocation.metadata),
    )


def _checked(output):
    # The bindings would fail on anything else without saying what it was.
    if not isinstance(output, (bytes, bytearray)):
        raise TypeError(f"handle returned {type(output).__name__}, not bytes; encode text, for instance with .encode()")
    return bytes(output)


def attempt_number():
    """The number of this attempt, counted from 1."""
    return host.attempt_number()


def cancelled():
    """Whether the task should stop early. A long one asks now and then, and raises `Retryable`."""
    return host.cancelled()


def log(message, level="info", **fields):
    """Writes a log record. Levels: trace, debug, info, warn, error."""
    host.log(host.Level[level.upper()], message, [(key, str(value)) for key, value in fields.items()])


def progress(done, total, note=""):
    """Says how far the attempt has come: `done` of `total`, and a word on what is going on."""
    host.progress(done, total, note)


def enqueue(task_name, payload, delay_ms=0, metadata=None):
    """Enqueues a follow-up invocation and returns its id. It counts once this attempt completes."""
    wanted = host.FollowUp(task_name, payload, delay_ms, list((metadata or {}).items()))
    try:
        return host.enqueue(wanted)
    except Err as error:
        raise ValueError(error.value) from None


# A task has no terminal and may trap at any moment: what it prints must not wait in a buffer.
sys.stdout.reconfigure(line_buffering=True)
