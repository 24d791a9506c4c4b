// Package terminal makes text fit for a terminal. Text that comes from tasks, handlers and
// clients may contain control characters, which a terminal obeys: they clear the screen, set
// the title of the window or hide what stands before them. This package shows such characters
// as escape sequences of Go, such as \x1b, wherever text is written that people read.
package terminal
