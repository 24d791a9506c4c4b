package plugins

import (
	"errors"

	"github.com/taskengine/taskengine/plugins/internal/calls"
)

// ErrClosed wraps the errors of a closed [Host], next to [task.ErrUnavailable].
var ErrClosed = errors.New("the handler's host is closed")

// unavailable returns the error of a task that was not sent to a process.
func unavailable(why error) error { return calls.Unavailable(why) }
