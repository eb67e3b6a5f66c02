package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Report says how a test run went.
type Report struct {
	Packages int       `json:"packages"`
	Passed   int       `json:"passed"`
	Failed   int       `json:"failed"`
	Skipped  int       `json:"skipped"`
	Seconds  float64   `json:"seconds"` // of all packages together
	Failures []Failure `json:"failures"`
	Slowest  []Timing  `json:"slowest"`
}

// Failure is a test that failed, or a package that failed outside a test, and what it wrote.
type Failure struct {
	Package string `json:"package"`
	Test    string `json:"test,omitempty"`
	Output  string `json:"output"`
}

// Timing is how long one test took.
type Timing struct {
	Package string  `json:"package"`
	Test    string  `json:"test"`
	Seconds float64 `json:"seconds"`
}

// How many of the slowest tests are listed.
const slowest = 5

// event is a line of `go test -json`; `go doc test2json` describes it.
type event struct {
	Action  string
	Package string
	Test    string
	Elapsed float64
	Output  string
}

// subject is what an event is about: a test or, without one, a package.
type subject struct{ pkg, test string }

// run is what is known while events are read.
type run struct {
	report Report
	open   []subject // started and not ended, in the order of their starts
	output map[subject]*strings.Builder
}

// Read makes a report of events. It refuses a line that is no event, and a run that was cut off:
// a report without the tests that did not run would look better than the run was.
func Read(events []byte) (*Report, error) {
	r := run{
		report: Report{Failures: []Failure{}, Slowest: []Timing{}},
		output: map[subject]*strings.Builder{},
	}
	lines := bufio.NewReader(bytes.NewReader(events))
	for number := 1; ; number++ {
		line, err := lines.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 {
			if err := r.line(line); err != nil {
				return nil, fmt.Errorf("bad-event: line %d: %w", number, err)
			}
		}
		if err == io.EOF {
			return r.end()
		}
	}
}

func (r *run) line(line []byte) error {
	var e event
	if err := json.Unmarshal(line, &e); err != nil {
		return err
	}
	if e.Action == "" {
		return errors.New(`it has no "Action"; is this the output of "go test -json"?`)
	}
	r.apply(e)
	return nil
}

func (r *run) apply(e event) {
	about := subject{e.Package, e.Test}
	switch e.Action {
	case "start", "run":
		r.open = append(r.open, about)
		r.output[about] = &strings.Builder{}
	case "output":
		if output := r.output[about]; output != nil {
			output.WriteString(e.Output)
		}
	case "pass", "fail", "skip":
		r.close(about, e)
		delete(r.output, about)
	}
}

func (r *run) close(about subject, e event) {
	r.open = slices.DeleteFunc(r.open, func(open subject) bool { return open == about })
	if about.test == "" {
		r.report.Packages++
		r.report.Seconds += e.Elapsed
	} else {
		r.count(e)
	}
	if e.Action == "fail" {
		r.fail(about)
	}
}

func (r *run) count(e event) {
	switch e.Action {
	case "pass":
		r.report.Passed++
	case "fail":
		r.report.Failed++
	case "skip":
		r.report.Skipped++
	}
	r.report.Slowest = append(r.report.Slowest, Timing{e.Package, e.Test, e.Elapsed})
}

// fail notes a failure, unless it only repeats that a test of the package has failed.
func (r *run) fail(about subject) {
	failed := func(f Failure) bool { return f.Package == about.pkg }
	if about.test == "" && slices.ContainsFunc(r.report.Failures, failed) {
		return
	}
	failure := Failure{Package: about.pkg, Test: about.test}
	if output := r.output[about]; output != nil {
		failure.Output = output.String()
	}
	r.report.Failures = append(r.report.Failures, failure)
}

func (r *run) end() (*Report, error) {
	if len(r.open) > 0 {
		open := r.open[len(r.open)-1]
		return nil, fmt.Errorf("cut-off: %s has started and not ended; record the run again",
			strings.TrimSpace(open.pkg+" "+open.test))
	}
	if r.report.Packages == 0 {
		return nil, errors.New("empty: there is no package in the events")
	}
	slices.SortStableFunc(r.report.Slowest, func(a, b Timing) int {
		return cmp.Compare(b.Seconds, a.Seconds)
	})
	r.report.Slowest = r.report.Slowest[:min(slowest, len(r.report.Slowest))]
	return &r.report, nil
}

// JSON is the report as an operator reads it.
func (r *Report) JSON() ([]byte, error) {
	text, err := json.MarshalIndent(r, "", "  ")
	return append(text, '\n'), err
}
