package server

import (
	"context"
	"errors"
	"fmt"

	"connectrpc.com/connect"

	"github.com/taskengine/taskengine/bulk"
	"github.com/taskengine/taskengine/bulk/jobs"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/schedule/scheduler"
	"github.com/taskengine/taskengine/server/tokens"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
	"github.com/taskengine/taskengine/timeslice"
	"github.com/taskengine/taskengine/timeslice/slicer"
	"github.com/taskengine/taskengine/workflow/runner"
)

// codes has the code of each error; the first match counts. docs/api.md has the same table.
var codes = []struct {
	err  error
	code connect.Code
}{
	{engine.ErrNoLimit, connect.CodeNotFound},
	{engine.ErrNotSet, connect.CodeNotFound},
	{ErrNoTarget, connect.CodeNotFound},
	{ErrNoRule, connect.CodeNotFound},
	{ErrNoSilence, connect.CodeNotFound},
	{ErrNoAlerts, connect.CodeFailedPrecondition},
	{ErrNoSource, connect.CodeNotFound},
	{ErrSourceSeek, connect.CodeInvalidArgument},
	{ErrSourceBusy, connect.CodeAborted},
	{ErrSourceBrokers, connect.CodeUnavailable},
	{slicer.ErrUnknown, connect.CodeNotFound},
	{timeslice.ErrInvalid, connect.CodeInvalidArgument},
	{slicer.ErrBusy, connect.CodeAborted},
	{slicer.ErrMoved, connect.CodeAborted},
	{slicer.ErrVersion, connect.CodeAborted},
	{slicer.ErrElsewhere, connect.CodeFailedPrecondition},
	{bulk.ErrInvalid, connect.CodeInvalidArgument},
	{jobs.ErrUnknown, connect.CodeNotFound},
	{jobs.ErrTaken, connect.CodeAlreadyExists},
	{jobs.ErrBusy, connect.CodeAborted},
	{tokens.ErrUnknown, connect.CodeNotFound},
	{tokens.ErrTaken, connect.CodeAlreadyExists},
	{tokens.ErrInvalid, connect.CodeInvalidArgument},
	{tokens.ErrNotAllowed, connect.CodeFailedPrecondition},
	{tokens.ErrMore, connect.CodePermissionDenied},
	{tokens.ErrBusy, connect.CodeAborted},
	{tokens.ErrUnavailable, connect.CodeUnavailable},
	{runner.ErrInvalid, connect.CodeInvalidArgument},
	{runner.ErrNoWorkflow, connect.CodeFailedPrecondition},
	{runner.ErrUnreadable, connect.CodeFailedPrecondition},
	{errNoDefinition, connect.CodeNotFound},
	{scheduler.ErrUnknown, connect.CodeNotFound},
	{scheduler.ErrInvalid, connect.CodeInvalidArgument},
	{scheduler.ErrBusy, connect.CodeAborted},
	{scheduler.ErrVersion, connect.CodeAborted},
	{engine.ErrInvalid, connect.CodeInvalidArgument},
	{engine.ErrBacklog, connect.CodeResourceExhausted},
	{engine.ErrExists, connect.CodeAlreadyExists},
	{engine.ErrLate, connect.CodeOutOfRange},
	{task.ErrNotFound, connect.CodeNotFound},
	{engine.ErrStale, connect.CodeAborted},
	{engine.ErrNotAllowed, connect.CodeFailedPrecondition},
	{engine.ErrUnreadable, connect.CodeFailedPrecondition},
	{scheduler.ErrUnreadable, connect.CodeFailedPrecondition},
	{scheduler.ErrTaken, connect.CodeFailedPrecondition},
	{engine.ErrUnsupported, connect.CodeUnimplemented},
	{engine.ErrClosed, connect.CodeUnavailable},
	{engine.ErrFailed, connect.CodeUnavailable},
	{storage.ErrClosed, connect.CodeUnavailable},
	{storage.ErrBroken, connect.CodeUnavailable},
	{context.DeadlineExceeded, connect.CodeDeadlineExceeded},
	{context.Canceled, connect.CodeCanceled},
	{storage.ErrElsewhere, connect.CodeUnavailable}, // the task was moved again and again
	{storage.ErrBusy, connect.CodeUnavailable},      // nothing was written
	{storage.ErrUnavailable, connect.CodeUnavailable},
}

// FullHeader is a header of answers. Its value is FullBacklog or FullWaited if the request was refused because it exceeds
// max_backlog of a type. So a client distinguishes it from a request that is too large, which has the same code.
const FullHeader = "Taskengine-Full"

// The values of FullHeader.
const (
	FullBacklog = "backlog"
	FullWaited  = "waited" // the request has waited for room in vain: the client may repeat it at once
)

// ReasonHeader is a header of answers. It distinguishes errors that have the same code.
const ReasonHeader = "Taskengine-Reason"

// reasons has the value of ReasonHeader for each error that has one. docs/api.md has the same table.
var reasons = []struct {
	err    error
	reason string
}{
	{engine.ErrChildrenClosed, "children_closed"},
	{engine.ErrTaskEnded, "task_ended"},
	{engine.ErrTooManyChildren, "too_many_children"},
}

// isPartial reports whether a submit has done all requests except the ones with an error in their
// receipts.
func isPartial(err error) bool {
	return errors.Is(err, engine.ErrExists) || errors.Is(err, engine.ErrLate)
}

// invalid returns the error of a request that is not valid.
func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %w", engine.ErrInvalid, fmt.Errorf(format, args...))
}

// answer converts an error of the engine to an error of the API, which it leaves as it is.
func (a *API) answer(err error) error {
	if answered := (*connect.Error)(nil); errors.As(err, &answered) {
		return err
	}
	for _, c := range codes {
		if errors.Is(err, c.err) {
			answer := connect.NewError(c.code, err)
			if c.err == engine.ErrBacklog {
				full := FullBacklog
				if errors.Is(err, context.DeadlineExceeded) {
					full = FullWaited
				}
				answer.Meta().Set(FullHeader, full)
			}
			for _, r := range reasons {
				if errors.Is(err, r.err) {
					answer.Meta().Set(ReasonHeader, r.reason)
				}
			}
			return answer
		}
	}
	a.log.Error("a request failed", "error", err)
	return connect.NewError(connect.CodeInternal, err)
}
