// Package bench measures the engine as its users meet it: through its public API, on a
// real disk, every change synced, against what the same store does without an engine
// in the same run. docs/performance.md has the figures and the commands.
package bench
