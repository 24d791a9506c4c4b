package server

import (
	"context"
	"errors"
	"fmt"

	"connectrpc.com/connect"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/engine/task"
	"github.com/taskengine/taskengine/storage"
)

// codes says under which code an error is answered; the first that matches counts.
// docs/api.md has the same table for readers.
var codes = []struct {
	err  error
	code connect.Code
}{
	{engine.ErrInvalid, connect.CodeInvalidArgument},
	{task.ErrNotFound, connect.CodeNotFound},
	{engine.ErrStale, connect.CodeAborted},
	{engine.ErrNotAllowed, connect.CodeFailedPrecondition},
	{engine.ErrUnsupported, connect.CodeUnimplemented},
	{engine.ErrClosed, connect.CodeUnavailable},
	{engine.ErrFailed, connect.CodeUnavailable},
	{storage.ErrClosed, connect.CodeUnavailable},
	{storage.ErrBroken, connect.CodeUnavailable},
	{context.DeadlineExceeded, connect.CodeDeadlineExceeded},
	{context.Canceled, connect.CodeCanceled},
	{storage.ErrElsewhere, connect.CodeUnavailable}, // it was moved, over and over
	{storage.ErrUnavailable, connect.CodeUnavailable},
}

// invalid returns the error of a request that cannot be understood.
func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %w", engine.ErrInvalid, fmt.Errorf(format, args...))
}

// answer turns an error of the engine into one of the API.
func (a *API) answer(err error) error {
	for _, c := range codes {
		if errors.Is(err, c.err) {
			return connect.NewError(c.code, err)
		}
	}
	a.log.Error("a request failed", "error", err)
	return connect.NewError(connect.CodeInternal, err)
}
