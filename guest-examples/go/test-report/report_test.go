package main

import (
	"os"
	"strings"
	"testing"
)

func read(t *testing.T, name string) (*Report, error) {
	t.Helper()
	events, err := os.ReadFile("sample/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return Read(events)
}

func TestARunThatPassed(t *testing.T) {
	report, err := read(t, "passed.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	if report.Packages != 1 || report.Passed != 5 || report.Failed != 0 || len(report.Failures) != 0 {
		t.Errorf("got %+v", report)
	}
	if len(report.Slowest) != slowest {
		t.Errorf("%d tests are listed as the slowest, want %d", len(report.Slowest), slowest)
	}
}

func TestARunWithAFailureNamesItOnce(t *testing.T) {
	report, err := read(t, "failed.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	if report.Passed != 4 || report.Failed != 1 || len(report.Failures) != 1 {
		t.Fatalf("got %+v", report)
	}
	failure := report.Failures[0]
	if failure.Test != "TestErrorsBecomeExitCodes" || !strings.Contains(failure.Output, "plain leaves with 1, want 75") {
		t.Errorf("got %+v", failure)
	}
}

// A timeout, os.Exit and a panic beside the tests leave a test without an end of its own.
func TestTestsThatEndWithTheirPackageHaveFailed(t *testing.T) {
	report, err := read(t, "aborted.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	if report.Packages != 4 || report.Passed != 1 || report.Failed != 4 {
		t.Errorf("got %+v", report)
	}
	want := []struct{ test, output string }{
		{"", "undefined: undefined\n"},
		{"TestPanicsElsewhere", "panic: the shelf is empty\n"},
		{"TestLeaves", "leaving\n"},
		{"TestNeverEnds", "=== RUN   TestNeverEnds\n"},
		{"TestNeverEnds/inner", "panic: test timed out after 1s\n"},
	}
	if len(report.Failures) != len(want) {
		t.Fatalf("got %+v, want %v", report.Failures, want)
	}
	for i, failure := range report.Failures {
		if failure.Test != want[i].test || !strings.Contains(failure.Output, want[i].output) {
			t.Errorf("got %+v, want %v", failure, want[i])
		}
	}
	if slow := report.Slowest[0]; slow.Test != "TestNeverEnds" || slow.Seconds != 1 {
		t.Errorf("the slowest is %+v", slow)
	}
}

func TestARunThatWasCutOffIsRefused(t *testing.T) {
	want := "bad-event: line 9: unexpected end of JSON input"
	if _, err := read(t, "cut-off.jsonl"); err == nil || err.Error() != want {
		t.Errorf("a run that stops within a line: got %v, want %s", err, want)
	}
	events, err := os.ReadFile("sample/passed.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(events), "\n")
	if _, err := Read([]byte(strings.Join(lines[:3], ""))); err == nil || !strings.HasPrefix(err.Error(), "cut-off: ") {
		t.Errorf("a run that stops between two lines: got %v", err)
	}
}

func TestOtherJSONIsRefused(t *testing.T) {
	for payload, want := range map[string]string{"": "empty: ", "{}\n": `no "Action"`, "[1]": "bad-event: line 1"} {
		if _, err := Read([]byte(payload)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", payload, err, want)
		}
	}
}
