// Package bench measures the engine as its users meet it: through its public API, on a
// real disk, every change synced. A [Scenario] says what load is put on which types of
// tasks; [Run] does it, and checks that nothing was lost, doubled, out of order or over
// a limit. What comes of it is a document of package bench/result.
//
// The way of one run, and where to find each step:
//
//	scenario.go   what a scenario says; yaml.go, decode.go and check.go read it
//	schedule.go   when tasks are to be submitted; draw.go: which
//	run.go        every load, every repetition, one after the other
//	session.go    one repetition: an engine on a fresh store
//	submit.go     tasks are submitted at their time, or as fast as they end
//	handle.go     what the tasks do
//	fault.go      what goes wrong on purpose; node.go: the whole process is killed
//	record.go     what happened to each task
//	verify.go     whether that is what was promised; gate.go and rate.go: limits
//	measure.go    what it says in figures; cost.go: what it took
//
// Nothing is recorded but what [engine.Observer], the receipts and the handlers tell,
// each in a place of its own that is there before it is needed, so that measuring
// disturbs little.
//
// The benchmarks in the tests of this package compare the engine with what the same
// store does without one. docs/benchmarks.md is the manual, docs/performance.md has the
// figures.
package bench
