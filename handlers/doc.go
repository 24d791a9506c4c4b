// Package handlers holds the built-in handlers: [Exec] runs a command for each attempt, [HTTP] sends a request. Exit
// codes and answers decide how the attempt ends: docs/handlers-builtin.md specifies that. [Split] divides tasks among
// handlers.
package handlers
