// The task: lines such as `coffee,350` on stdin, how many there are and their total as JSON on stdout.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Exit codes for wasmq. Beside 65 it gives up at 64, which is for wrong arguments; any other one asks for
// another attempt, like 75.
const (
	dataError = 65 // another attempt cannot help
	retry     = 75 // worth another attempt
)

type report struct {
	Items int    `json:"items"`
	Total uint64 `json:"total"`
}

func main() {
	payload, err := io.ReadAll(os.Stdin)
	if err != nil {
		fail(retry, fmt.Errorf("unreadable: %w", err))
	}
	report, err := sum(payload)
	if err != nil {
		fail(dataError, err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(report); err != nil {
		fail(retry, fmt.Errorf("unwritable: %w", err))
	}
}

func sum(payload []byte) (report, error) {
	if !utf8.Valid(payload) {
		return report{}, errors.New("not-text: the payload is not UTF-8")
	}
	lines := strings.Split(strings.ReplaceAll(string(payload), "\r\n", "\n"), "\n")
	if last := len(lines) - 1; lines[last] == "" {
		lines = lines[:last]
	}
	result := report{Items: len(lines)}
	for at, line := range lines {
		_, digits, _ := strings.Cut(line, ",")
		amount, err := strconv.ParseUint(digits, 10, 64)
		if err != nil || len(digits) > 9 {
			return report{}, fmt.Errorf("bad-amount: line %d: no amount of 1 to 9 digits", at+1)
		}
		result.Total += amount
	}
	return result, nil
}

// fail says why on stderr, where wasmq keeps it.
func fail(code int, err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(code)
}
