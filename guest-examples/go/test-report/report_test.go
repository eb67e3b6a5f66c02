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
