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

// codes has the code of each error; the first match counts. docs/api.md has the same table.
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
	{storage.ErrElsewhere, connect.CodeUnavailable}, // the task was moved again and again
	{storage.ErrUnavailable, connect.CodeUnavailable},
}

// invalid returns the error of a request that is not valid.
func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %w", engine.ErrInvalid, fmt.Errorf(format, args...))
}

// answer converts an error of the engine to an error of the API.
func (a *API) answer(err error) error {
	for _, c := range codes {
		if errors.Is(err, c.err) {
			return connect.NewError(c.code, err)
		}
	}
	a.log.Error("a request failed", "error", err)
	return connect.NewError(connect.CodeInternal, err)
}
