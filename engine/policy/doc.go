// Package policy says how tasks are treated: what a [Type] allows its tasks, how many
// of something may run ([Limit]), and when a failed attempt is tried again ([Retry]).
// It is what a configuration file becomes and what the engine decides by. Values are
// plain data: nothing here keeps state, reads a clock or waits.
package policy
