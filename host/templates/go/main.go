// The task: lines such as `coffee,350` on stdin, how many there are and their total as JSON on stdout.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// Exit codes that wasmq knows. Any other one asks for another attempt too.
const (
	dataError = 65 // another attempt cannot help
	retry     = 75 // worth another attempt
)

type report struct {
	Items int    `json:"items"`
	Total uint64 `json:"total"`
}

func main() {
	report, err := sum(os.Stdin)
	if err != nil {
		fail(dataError, err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(report); err != nil {
		fail(retry, err)
	}
}

func sum(payload io.Reader) (report, error) {
	var result report
	lines := bufio.NewScanner(payload)
	for lines.Scan() {
		result.Items++
		_, amount, _ := strings.Cut(lines.Text(), ",")
		value, err := strconv.ParseUint(amount, 10, 32)
		if err != nil {
			return report{}, fmt.Errorf("bad-amount: line %d: %q is not an amount", result.Items, amount)
		}
		result.Total += value
	}
	return result, lines.Err()
}

// fail says why on stderr, where wasmq keeps it.
func fail(code int, err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(code)
}
