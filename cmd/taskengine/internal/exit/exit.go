// Package exit names the exit codes of the program and the errors that carry one. The codes are a
// contract: docs/cli.md lists them.
package exit

import (
	"context"
	"errors"
	"fmt"

	"github.com/taskengine/taskengine/config"
)

// The exit codes.
const (
	OK          = 0
	Failure     = 1
	Usage       = 2
	Config      = 3
	NotFound    = 4
	Conflict    = 5
	NotAllowed  = 6
	Unavailable = 7
	Backlog     = 8
	Late        = 9
	Partial     = 10
	Signal      = 128 // plus the number of the signal
)

// Error is an error that names its exit code.
type Error struct {
	Code int
	Err  error // nil if there is nothing to print
}

// Error implements error.
func (e *Error) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

// Unwrap returns the error without its code.
func (e *Error) Unwrap() error { return e.Err }

// Errorf returns an error with an exit code, formatted as by [fmt.Errorf].
func Errorf(code int, format string, args ...any) error {
	return &Error{code, fmt.Errorf(format, args...)}
}

// With returns err with an exit code. A nil err has a code and nothing to print.
func With(code int, err error) error { return &Error{code, err} }

// Code returns the exit code of an error: the one that it names, Config for an invalid
// configuration, Unavailable for a deadline that has passed, and otherwise Failure.
func Code(err error) int {
	var named *Error
	var problems *config.Errors
	switch {
	case err == nil:
		return OK
	case errors.As(err, &named):
		return named.Code
	case errors.As(err, &problems):
		return Config
	case errors.Is(err, context.DeadlineExceeded):
		return Unavailable
	}
	return Failure
}
