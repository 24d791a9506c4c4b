// Package policy defines how the engine treats tasks: what a [Type] allows its tasks, how many tasks
// may run at once ([Limit]), and when a failed attempt is tried again ([Retry]). A configuration file
// is read into these types. The values are plain data: nothing here keeps state, reads a clock or
// waits.
package policy
