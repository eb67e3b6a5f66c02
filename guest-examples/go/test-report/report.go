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
	"time"
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
	Time        time.Time
	Action      string
	Package     string
	Test        string
	Elapsed     float64
	Output      string
	ImportPath  string // of what is built
	FailedBuild string // the ImportPath of the build for which a package failed
}

// subject is what an event is about: a test or, without one, a package.
type subject struct{ pkg, test string }

// run is what is known while events are read.
type run struct {
	report Report
	open   []started // in the order of their starts
	output map[subject]*strings.Builder
	builds map[string]*strings.Builder // what the compiler wrote, by ImportPath
}

// started is a subject that has not ended.
type started struct {
	subject
	at time.Time
}

// Read makes a report of events. It refuses a line that is no event, and a run that was cut off:
// a report without the tests that did not run would look better than the run was.
func Read(events []byte) (*Report, error) {
	r := run{
		report: Report{Failures: []Failure{}, Slowest: []Timing{}},
		output: map[subject]*strings.Builder{},
		builds: map[string]*strings.Builder{},
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
		r.open = append(r.open, started{about, e.Time})
		r.output[about] = &strings.Builder{}
	case "build-output":
		if r.builds[e.ImportPath] == nil {
			r.builds[e.ImportPath] = &strings.Builder{}
		}
		r.builds[e.ImportPath].WriteString(e.Output)
	case "output":
		if output := r.output[about]; output != nil {
			output.WriteString(e.Output)
		}
	case "pass", "fail", "skip":
		if e.Test == "" {
			r.failOpenTests(e)
		}
		r.close(about, e)
	}
}

// failOpenTests closes the tests that have no end of their own when their package has ended. A timeout,
// os.Exit and a panic outside of a test's own goroutine do that.
func (r *run) failOpenTests(end event) {
	for _, open := range slices.Clone(r.open) {
		if open.pkg != end.Package || open.test == "" {
			continue
		}
		took := end.Time.Sub(open.at).Truncate(10 * time.Millisecond) // as precise as what Go reports
		r.close(open.subject, event{Action: "fail", Package: open.pkg, Test: open.test, Elapsed: took.Seconds()})
	}
}

func (r *run) close(about subject, e event) {
	defer delete(r.output, about)
	r.open = slices.DeleteFunc(r.open, func(open started) bool { return open.subject == about })
	if about.test == "" {
		r.report.Packages++
		r.report.Seconds += e.Elapsed
	} else {
		r.count(e)
	}
	if e.Action == "fail" {
		r.fail(about, r.builds[e.FailedBuild])
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

// fail notes a failure with what was written, first by the compiler if it failed, unless it only repeats that a
// test of the package has failed.
func (r *run) fail(about subject, build *strings.Builder) {
	failed := func(f Failure) bool { return f.Package == about.pkg }
	if about.test == "" && slices.ContainsFunc(r.report.Failures, failed) {
		return
	}
	failure := Failure{Package: about.pkg, Test: about.test}
	for _, output := range []*strings.Builder{build, r.output[about]} {
		if output != nil {
			failure.Output += output.String()
		}
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
