package plugins

import "errors"

// ErrClosed wraps the errors of a closed [Host], next to [task.ErrUnavailable].
var ErrClosed = errors.New("the handler's host is closed")
