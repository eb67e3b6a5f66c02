// The contract guest in Go: one task that does whatever its payload's first line says, the same in
// every language. The host's tests run it; it is also an example of each thing a task can do.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	task "wasmq.example/guests/wasmqtask"
)

func main() { task.Run(handle) }

func handle(call task.Invocation, payload []byte) ([]byte, error) {
	line, data, _ := bytes.Cut(payload, []byte("\n"))
	command, arguments, _ := strings.Cut(string(line), " ")
	switch command {
	case "echo":
		return data, nil
	case "facts":
		return facts(call)
	case "attempt":
		return []byte(strconv.Itoa(call.Attempt)), nil
	case "retryable":
		return nil, task.Retryable(problem(arguments))
	case "retry-after": // an exit code carries no delay
		_, arguments, _ = strings.Cut(arguments, " ")
		return nil, task.Retryable(problem(arguments))
	case "permanent":
		return nil, task.Permanent(problem(arguments))
	case "exception":
		outer(arguments)
	case "log":
		fmt.Fprintln(os.Stderr, "hello from the guest, language=go")
		return []byte("logged"), nil
	case "cancelled": // a command is not told that it was cancelled
		for {
			time.Sleep(10 * time.Millisecond)
		}
	case "loop":
		for {
		}
	case "memory":
		exhaust()
	case "large":
		return large(arguments)
	}
	return nil, task.Permanent(fmt.Errorf("unknown-command: there is no command %q", command))
}

func facts(call task.Invocation) ([]byte, error) {
	facts := map[string]any{"id": call.ID, "task": call.Task}
	if !call.EnqueuedAt.IsZero() { // the host tells either all of these or none
		facts["enqueued_at_ms"] = call.EnqueuedAt.UnixMilli()
		facts["replays"] = call.Replays
		facts["max_attempts"] = call.MaxAttempts
		facts["metadata"] = call.Metadata
	}
	return json.Marshal(facts)
}

// problem makes an error of "CODE MESSAGE…".
func problem(arguments string) error {
	code, message, _ := strings.Cut(arguments, " ")
	return errors.New(code + ": " + message)
}

func outer(message string) { inner(message) }

func inner(message string) { panic(message) }

// exhaust takes memory until the runtime gives up.
func exhaust() {
	var taken [][]byte
	for {
		chunk := make([]byte, 1<<20)
		for i := 0; i < len(chunk); i += 4096 {
			chunk[i] = 1
		}
		taken = append(taken, chunk)
	}
}

func large(argument string) ([]byte, error) {
	size, err := strconv.Atoi(argument)
	if err != nil || size < 0 {
		return nil, task.Permanent(fmt.Errorf("bad-size: %q is not a number of bytes", argument))
	}
	return bytes.Repeat([]byte("x"), size), nil
}
