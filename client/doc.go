// Package client adds tasks to nodes of taskengine, waits for them and manages them.
//
//	c, err := client.Open([]string{"10.0.0.1:7420", "10.0.0.2:7420"}, client.Options{})
//	receipt, err := c.Submit(ctx, "mail", Mail{To: "a@example.com"}, client.Key("m-1"))
//
// A client uses one of its addresses, and another one when that does not answer or stops. A node that takes requests and
// says nothing for 1.5 s is asked for its version; if it does not answer that within 2 s, the client leaves it. Tasks that are submitted at
// the same time are sent together, over one stream. Every task has an id that the client makes. So a submit that is
// repeated, because its answer was lost, adds no second task.
//
// The types of this package do not depend on the encoding of the API. Words of a node, such as a [State] or a [ReasonCode],
// are strings: a word of a newer node arrives unchanged, and a switch over them needs a default.
//
// The files:
//
//	client.go, nodes.go          options, addresses, calls
//	silent.go                    nodes that take requests and do not answer
//	request.go                   requests and their options
//	submit.go, flow.go           adding tasks, and the stream that carries them
//	task.go, tasks.go            tasks; reading and changing them
//	limits.go                    limits
//	bulk.go                      bulk jobs, and values of tasks
//	schedule.go, schedules.go    schedules; reading and changing them
//	decode.go                    times and ids of the messages of nodes
//	type.go                      types with their payloads and results
//	errors.go                    errors
package client
