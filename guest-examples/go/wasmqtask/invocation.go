package wasmqtask

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// Invocation holds the facts of an invocation. All but Attempt are the same in every attempt.
// A fact that the host does not tell is the zero value.
type Invocation struct {
	// ID is a UUIDv7. Use it as the idempotency key towards other systems: delivery is at least once.
	ID string
	// Task is the name under which the task was deployed.
	Task string
	// Attempt counts from 1, and again from 1 after a replay.
	Attempt int
	// EnqueuedAt is when the invocation was first enqueued, to the millisecond.
	EnqueuedAt time.Time
	// Replays says how often it was put back from the dead letter queue.
	Replays int
	// MaxAttempts says how many attempts there may be, the first one included.
	MaxAttempts int
	// Metadata is what the enqueuer attached.
	Metadata map[string]string
}

// invocation reads the facts from environment variables.
func invocation(lookup func(string) (string, bool)) (Invocation, error) {
	env := reader{lookup: lookup}
	call := Invocation{
		ID:          env.text("WASMQ_ID"),
		Task:        env.text("WASMQ_TASK"),
		Attempt:     int(env.number("WASMQ_ATTEMPT")),
		EnqueuedAt:  env.time("WASMQ_ENQUEUED_AT_MS"),
		Replays:     int(env.number("WASMQ_REPLAYS")),
		MaxAttempts: int(env.number("WASMQ_MAX_ATTEMPTS")),
		Metadata:    env.object("WASMQ_METADATA"),
	}
	return call, env.err
}

// reader reads variables and keeps the first error.
type reader struct {
	lookup func(string) (string, bool)
	err    error
}

func (r *reader) text(name string) string {
	value, _ := r.lookup(name)
	return value
}

func (r *reader) number(name string) int64 {
	value, ok := r.lookup(name)
	if !ok {
		return 0
	}
	number, err := strconv.ParseInt(value, 10, 64)
	r.note(name, value, err)
	return number
}

func (r *reader) time(name string) time.Time {
	if _, ok := r.lookup(name); !ok {
		return time.Time{}
	}
	return time.UnixMilli(r.number(name)).UTC()
}

func (r *reader) object(name string) map[string]string {
	value, ok := r.lookup(name)
	if !ok {
		return nil
	}
	var object map[string]string
	r.note(name, value, json.Unmarshal([]byte(value), &object))
	return object
}

func (r *reader) note(name, value string, err error) {
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("the variable %s is %q, which cannot be read: %w", name, value, err)
	}
}
