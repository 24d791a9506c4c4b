// Package policy defines how the engine treats tasks: the rules of each [Type], the number of tasks that
// may run at once ([Limit]), and the time of the next attempt after a failed one ([Retry]). A configuration file
// is read into these types. The values are plain data: nothing here keeps state, reads a clock or
// waits.
package policy
