//go:build unix

// Pressure runs a campaign: the same phases of load and pressure for several task queues, one after the other, with a server
// of PostgreSQL of its own for each. It writes figures of every second and of every phase, a page with graphs, and a table.
// docs/benchmarks.md describes it.
//
//	main.go      flags, programs and output
//	phases.go    the phases and how they are written
//	campaign.go  the way of one subject through the phases
//	stress.go    the pressures
//	process.go   adapters as processes: tokens to them, lines from them
//	observer.go  figures of the database, and the bystander
//	course.go    the figures of seconds and phases
//	table.go     the table of text
package main
