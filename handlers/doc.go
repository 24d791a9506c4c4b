// Package handlers holds the handlers that are built in: [Exec] runs a command for each
// attempt, [HTTP] sends a request. Both say with their answers and exit codes what to
// do next; docs/handlers-builtin.md is their contract.
package handlers
