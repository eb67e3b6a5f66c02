package wasmqtask

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

func environment(variables map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		value, ok := variables[name]
		return value, ok
	}
}

func TestFactsComeFromTheEnvironment(t *testing.T) {
	call, err := invocation(environment(map[string]string{
		"WASMQ_ID": "0199-id", "WASMQ_TASK": "resize", "WASMQ_ATTEMPT": "2",
		"WASMQ_ENQUEUED_AT_MS": "1700000000123", "WASMQ_REPLAYS": "1", "WASMQ_MAX_ATTEMPTS": "3",
		"WASMQ_METADATA": `{"tenant":"north"}`,
	}))
	if err != nil {
		t.Fatal(err)
	}
	if call.ID != "0199-id" || call.Task != "resize" || call.Attempt != 2 || call.Replays != 1 ||
		call.MaxAttempts != 3 || call.Metadata["tenant"] != "north" {
		t.Errorf("wrong facts: %+v", call)
	}
	if want := time.UnixMilli(1700000000123); !call.EnqueuedAt.Equal(want) {
		t.Errorf("enqueued at %v, want %v", call.EnqueuedAt, want)
	}
}

func TestMissingFactsAreZero(t *testing.T) {
	call, err := invocation(environment(map[string]string{"WASMQ_ID": "0199-id"}))
	if err != nil || call.Attempt != 0 || !call.EnqueuedAt.IsZero() || call.Metadata != nil {
		t.Errorf("got %+v, %v", call, err)
	}
}

func TestAVariableThatCannotBeReadIsNamed(t *testing.T) {
	_, err := invocation(environment(map[string]string{"WASMQ_ATTEMPT": "second"}))
	if err == nil || !strings.Contains(err.Error(), `WASMQ_ATTEMPT is "second"`) {
		t.Errorf("got %v", err)
	}
}

func TestErrorsBecomeExitCodes(t *testing.T) {
	for _, test := range []struct {
		err  error
		want int
	}{
		{errors.New("plain"), 1},
		{Retryable(io.ErrUnexpectedEOF), 75},
		{Permanent(io.ErrUnexpectedEOF), 65},
		{fmt.Errorf("row 3: %w", Permanent(io.ErrUnexpectedEOF)), 65},
		{Permanent(Retryable(io.ErrUnexpectedEOF)), 65},
	} {
		if code := exitCode(test.err); code != test.want {
			t.Errorf("%v leaves with %d, want %d", test.err, code, test.want)
		}
	}
}

func TestMarkedErrorsKeepTheirTextAndCause(t *testing.T) {
	err := Permanent(io.ErrUnexpectedEOF)
	if err.Error() != io.ErrUnexpectedEOF.Error() || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %v", err)
	}
	if Permanent(nil) != nil || Retryable(nil) != nil {
		t.Error("no error was marked and became one")
	}
}
