// Package capacity answers how much of a machine a load needs. It measures what things
// take on a machine ([Calibrate]), reads a description of a load ([Read]), and simulates
// the one on the other with the engine's real core ([Plan]). [Verify] says how far off
// that is, by running loads that it has predicted. docs/capacity.md is for its users.
package capacity
