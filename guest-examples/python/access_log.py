"""A web server's access log in, a report as JSON out.

The log is in the combined format of Apache and nginx. A line that is not makes the task fail for
good, with the number of the line: a report on half a log would be a wrong report.
"""

import ipaddress
import json
import re
from collections import Counter
from dataclasses import dataclass
from datetime import datetime

from wasmq_task import Permanent, log, progress, task

LINE = re.compile(
    r'(?P<client>\S+) \S+ \S+ \[(?P<time>[^\]]+)\] '
    r'"(?P<request>(?:[^"\\]|\\.)*)" (?P<status>\d{3}) (?P<size>\d+|-)'
    r'(?: "(?P<referrer>(?:[^"\\]|\\.)*)" "(?P<agent>(?:[^"\\]|\\.)*)")?'
)
LINES_BETWEEN_REPORTS = 1_000
TOP = 5


@dataclass(frozen=True)
class Request:
    client: str
    time: datetime
    path: str
    status: int
    size: int


def handle(invocation, payload):
    # Not splitlines(), which also cuts where a line of a log has U+2028 or a form feed in it.
    lines = text_of(payload).removesuffix("\n").split("\n")
    requests = []
    for number, line in enumerate(lines, start=1):
        if line.strip():
            requests.append(parse(line.removesuffix("\r"), number))
        if number % LINES_BETWEEN_REPORTS == 0:
            progress(number, len(lines), "lines read")
    if not requests:
        raise Permanent("empty-log", "the log has no requests")
    log("log read", requests=len(requests), source=invocation.metadata.get("source", "unknown"))
    return (json.dumps(report(requests), indent=2) + "\n").encode()


def text_of(payload):
    try:
        return payload.decode()
    except UnicodeDecodeError as error:
        line = payload.count(b"\n", 0, error.start) + 1
        raise Permanent("not-text", f"line {line} is not UTF-8") from error


def parse(line, number):
    found = LINE.fullmatch(line)
    if not found:
        raise bad_line(number, line, "it is not in the combined log format")
    try:
        time = datetime.strptime(found["time"], "%d/%b/%Y:%H:%M:%S %z")
        client = str(ipaddress.ip_address(found["client"]))
        size = 0 if found["size"] == "-" else int(found["size"])
    except ValueError as error:
        raise bad_line(number, line, str(error)) from error
    return Request(client, time, path_of(found["request"]), int(found["status"]), size)


def path_of(request):
    """The path without its query. What never became a request, a bare `-`, stays as it is."""
    words = request.split(" ")
    return words[1].partition("?")[0] if len(words) == 3 else request


def bad_line(number, line, why):
    return Permanent("bad-line", f"line {number} cannot be read: {why}", details=line)


def report(requests):
    times = [request.time for request in requests]
    failed = Counter(request.path for request in requests if request.status >= 500)
    return {
        "requests": len(requests),
        "clients": len({request.client for request in requests}),
        "bytes": sum(request.size for request in requests),
        "first": min(times).isoformat(),
        "last": max(times).isoformat(),
        "by_status": dict(sorted(Counter(str(request.status) for request in requests).items())),
        "top_paths": top(Counter(request.path for request in requests)),
        "server_errors": top(failed),
    }


def top(counts):
    """The most frequent ones; what is equally frequent in the order of the alphabet."""
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [{"path": path, "requests": count} for path, count in ranked[:TOP]]


Handler = task(handle)
