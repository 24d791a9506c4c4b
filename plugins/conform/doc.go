// Package conform examines whether a program keeps to the protocol of handlers, as
// docs/handlers.md describes it. It starts the program, plays its host at the level of
// frames, and says of each rule whether it held:
//
//	report, err := conform.Run(ctx, conform.Options{
//		Command: []string{"./mailer"}, Type: "mail", Payload: []byte(`{"to": "nobody@example.com"}`),
//	})
//
// It serves both transports, gRPC and lines of JSON, and needs no engine. A program that
// serves the task type "describe" is taken for the conformance program of an SDK and is
// examined for everything that handlers may do; docs/handlers.md lists what such a program
// serves.
//
// The process that runs the examination kills what it starts, together with the process
// groups of it and, on Linux, with what has left those.
package conform
