// Package answer reads the JSON document by which a command or an HTTP server says how an attempt ends, and writes the one
// that describes a task to them. docs/handlers-builtin.md specifies both.
package answer
