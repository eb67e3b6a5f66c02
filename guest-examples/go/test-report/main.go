// A task: the events of `go test -json` in, a report as JSON out.
package main

import task "wasmq.example/guests/wasmqtask"

func main() {
	task.Run(func(_ task.Invocation, payload []byte) ([]byte, error) {
		report, err := Read(payload)
		if err != nil {
			// The same bytes will be refused again: another attempt cannot help.
			return nil, task.Permanent(err)
		}
		return report.JSON()
	})
}
