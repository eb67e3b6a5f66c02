// Package wasmqtask turns a function into a wasmq task.
//
// A task in Go is a command: wasmq gives it the payload on stdin and the facts of the invocation in
// the environment, takes the output from stdout, and reads the exit code as the verdict. This
// package is all of that; copy it into a project of your own.
package wasmqtask

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// The exit codes that wasmq understands beside 0.
const (
	exitFailure   = 1  // another attempt, as with any code wasmq has no rule for
	exitPermanent = 65 // EX_DATAERR: dead at once
	exitRetryable = 75 // EX_TEMPFAIL: another attempt later
)

// Run calls the function once with the payload and leaves the program with what came of it.
//
// An error from Permanent makes a dead task at once. One from Retryable, and every other error,
// asks for another attempt. The error's text goes to stderr, which wasmq keeps. A panic is left
// alone, so that its message and its goroutine trace reach stderr as well.
//
// The function must not write to stdout: what is written there becomes part of the output.
func Run(handle func(call Invocation, payload []byte) ([]byte, error)) {
	if err := attempt(handle); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(exitCode(err))
	}
}

func attempt(handle func(Invocation, []byte) ([]byte, error)) error {
	call, err := invocation(os.LookupEnv)
	if err != nil {
		return err
	}
	payload, err := io.ReadAll(os.Stdin)
	if err != nil {
		return fmt.Errorf("cannot read the payload from stdin: %w", err)
	}
	output, err := handle(call, payload)
	if err != nil {
		return err
	}
	if _, err := os.Stdout.Write(output); err != nil {
		return fmt.Errorf("cannot write %d bytes of output to stdout: %w", len(output), err)
	}
	return nil
}

// Permanent marks an error that another attempt cannot get over, such as a payload that makes no
// sense. Errors may wrap it. Permanent(nil) is nil.
func Permanent(err error) error { return mark(err, exitPermanent) }

// Retryable marks an error that another attempt may get over. Errors may wrap it. Retryable(nil)
// is nil.
func Retryable(err error) error { return mark(err, exitRetryable) }

// marked is an error that knows the exit code it stands for.
type marked struct {
	error
	code int
}

func (m marked) Unwrap() error { return m.error }

func mark(err error, code int) error {
	if err == nil {
		return nil
	}
	return marked{err, code}
}

// The outermost mark counts.
func exitCode(err error) int {
	var m marked
	if errors.As(err, &m) {
		return m.code
	}
	return exitFailure
}
