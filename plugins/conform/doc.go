// Package conform checks whether a program follows the protocol of handlers, which docs/handlers.md specifies. It starts
// the program, acts as its host at the level of frames, and reports for each rule whether the program follows it:
//
//	report, err := conform.Run(ctx, conform.Options{
//		Command: []string{"./mailer"}, Type: "mail", Payload: []byte(`{"to": "test@example.com"}`),
//	})
//
// It supports both transports, gRPC and lines of JSON. Children are added by a node in memory that runs the program. A program that serves the task type
// "describe" is the conformance program of an SDK: it is checked for everything that handlers may do. docs/handlers.md
// lists the types that such a program serves.
//
// Run kills the processes that it starts with their process groups and, on Linux, the processes that have left these.
package conform
