package cli

import (
	"context"
	"errors"
	"fmt"

	"connectrpc.com/connect"

	"github.com/taskengine/taskengine/config"
)

// The exit codes. They are a contract: docs/cli.md has them, too.
const (
	exitOK          = 0
	exitFailure     = 1
	exitUsage       = 2
	exitConfig      = 3
	exitNotFound    = 4
	exitConflict    = 5
	exitNotAllowed  = 6
	exitUnavailable = 7
	exitSignal      = 128 // plus the number of the signal
)

const exitCodesHelp = `Exit codes:
  0  ok
  1  failure: the store cannot be opened, has failed or is not well, its tables are not
     as they should be, a copy is not the same, or a task that was waited for did not end
     done
  2  usage: the command line, or a request, makes no sense
  3  the configuration is invalid
  4  there is no such task
  5  conflict: the task has changed meanwhile
  6  the task's state does not allow that
  7  the node cannot be reached or is stopping, or the time is over
  130, 143  a node was interrupted or terminated twice: it did not wait for its tasks;
     or another command was, once`

// exitError is an error that names its exit code.
type exitError struct {
	code int
	err  error // nil if there is nothing to say
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// exit returns an error with an exit code.
func exit(code int, format string, args ...any) error {
	return &exitError{code, fmt.Errorf(format, args...)}
}

// exitCode returns the exit code of an error.
func exitCode(err error) int {
	var named *exitError
	var problems *config.Errors
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &named):
		return named.code
	case errors.As(err, &problems):
		return exitConfig
	case errors.Is(err, context.DeadlineExceeded):
		return exitUnavailable
	}
	return exitFailure
}

// remoteCode returns the exit code of an error of the API.
func remoteCode(code connect.Code) int {
	switch code {
	case connect.CodeInvalidArgument, connect.CodeResourceExhausted: // the latter is a request that is too large
		return exitUsage
	case connect.CodeNotFound:
		return exitNotFound
	case connect.CodeAborted, connect.CodeAlreadyExists:
		return exitConflict
	case connect.CodeFailedPrecondition, connect.CodePermissionDenied, connect.CodeUnauthenticated:
		return exitNotAllowed
	case connect.CodeUnavailable, connect.CodeDeadlineExceeded:
		return exitUnavailable
	}
	return exitFailure
}
