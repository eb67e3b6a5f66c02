module wasmq.example/guests

go 1.24
