package plugins

import (
	"errors"
	"fmt"

	"github.com/taskengine/taskengine/engine/task"
)

// ErrClosed wraps the errors of a closed [Host], next to [task.ErrUnavailable].
var ErrClosed = errors.New("the handler's host is closed")

// unavailable is the error of a task that was not handed over.
func unavailable(why error) error { return fmt.Errorf("%w: %w", task.ErrUnavailable, why) }
