package plugins

import (
	"errors"
	"fmt"

	"github.com/taskengine/taskengine/engine/task"
)

// ErrClosed wraps the errors of a closed [Host], next to [task.ErrUnavailable].
var ErrClosed = errors.New("the handler's host is closed")

// unavailable returns the error of a task that was not sent to a process.
func unavailable(why error) error { return fmt.Errorf("%w: %w", task.ErrUnavailable, why) }
