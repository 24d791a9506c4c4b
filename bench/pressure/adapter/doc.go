// Package adapter runs one queue as a process of a campaign: it offers jobs, works them, and prints figures as lines of
// JSON. The form is that of github.com/hardbyte/postgresql-job-queue-benchmarking (CONTRIBUTING_ADAPTERS.md): settings come
// from the environment, ENQUEUE lines on the standard input say how many jobs arrive, and the process ends on SIGTERM. With
// PRESSURE_INTERVALS=1 it prints records of its own beside them, with whole histograms, for bench/pressure.
//
//	config.go    the settings
//	protocol.go  the lines
//	load.go      the jobs that arrive, and their inserts
//	run.go       the process: load, work, counts and samples
package adapter
