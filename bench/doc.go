// Package bench measures the engine as its users see it: through its public API, on a real disk, with
// every change synced. A [Scenario] describes the load and the types of tasks. [Run] runs it, and
// checks that no task was lost, doubled, out of order or over a limit. The result is a document of
// package bench/result.
//
// The steps of a run:
//
//	scenario.go   the scenario; yaml.go, decode.go and check.go read it
//	schedule.go   the times of submits; draw.go: the tasks
//	run.go        all loads and repetitions, one after the other
//	repetition.go one repetition: an engine on a fresh store
//	submit.go     submits tasks at their times, or as fast as tasks end
//	handle.go     the handlers of the tasks
//	fault.go      injected faults; node.go: the whole process is killed
//	record.go     the times and the end of each task
//	verify.go     checks of the promises; gate.go and rate.go: limits
//	measure.go    the figures; cost.go: usage of the machine
//
// The records only hold reports of [engine.Observer], receipts and handlers. Each record is allocated
// before it is needed, so that measuring disturbs little.
//
// The benchmarks in the tests of this package compare the engine with the bare store.
// docs/benchmarks.md is the manual, docs/performance.md has the figures.
package bench
