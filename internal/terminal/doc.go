// Package terminal makes text safe to print on a terminal. Text of tasks, handlers and clients may
// contain control characters, which a terminal obeys: they clear the screen, set the title of the
// window or hide other text. This package replaces them by escape sequences of Go, such as \x1b. All
// text for terminals goes through it.
package terminal
