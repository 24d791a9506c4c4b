// Package capacity plans how much of a machine a load needs. [Calibrate] measures the costs of
// the engine on a machine, [Read] reads the description of a load, and [Plan] simulates the load
// on that machine with the real core of the engine. [Verify] measures the error of predictions by
// running the loads that it has predicted. docs/capacity.md is the manual.
package capacity
