package client

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

// Errors that calls wrap. Match them with errors.Is; [Error] has the answer of the node.
var (
	ErrInvalid     = errors.New("the request is not valid")                         // correct it
	ErrNotFound    = errors.New("not found")                                        // there is no such task, limit or schedule
	ErrConflict    = errors.New("it has changed since it was read")                 // read again and decide again
	ErrExists      = errors.New("there is a task with the key")                     // and its type rejects other requests with it; nothing was added
	ErrLate        = errors.New("the time of the request lies too far in the past") // by more than max_lateness of its type; nothing was added
	ErrNotAllowed  = errors.New("it is not allowed")                                // by the state of a task, or by the token of the client
	ErrBacklog     = errors.New("the backlog is full")                              // nothing was added; submit later
	ErrTooLarge    = errors.New("the request is larger than the node accepts")      // max_payload of its type says how large
	ErrUnavailable = errors.New("no node answers")                                  // it may have been carried out
	ErrUnsupported = errors.New("the node does not support it")                     // its store, or an older version
	ErrInternal    = errors.New("the node failed")                                  // its log has the reason
	ErrClosed      = errors.New("the client is closed")
)

// Errors that calls about children wrap together with one of those above.
var (
	ErrChildrenClosed  = errors.New("the children take no more") // they were closed, or the task was woken; with ErrNotAllowed
	ErrTaskEnded       = errors.New("the task has ended")        // and takes no children; with ErrNotAllowed
	ErrTooManyChildren = errors.New("too many children")         // a task has up to 1,048,576 of one name; with ErrInvalid
)

// Error is the error of a node, or the reason why no node has answered.
type Error struct {
	Code    string // of docs/api.md, such as invalid_argument
	Message string // to be read, not matched
	Address string // of the node; empty if no node has answered

	kind     error // one of the errors above; nil for the code of a context
	reason   error // likewise, one about children; nil for others
	isWaited bool  // the request has waited for room in a backlog, and may be repeated at once
}

// Error implements error.
func (e *Error) Error() string {
	if e.Address == "" {
		return "taskengine: " + e.Message
	}
	return fmt.Sprintf("taskengine: the node at %s: %s", e.Address, e.Message)
}

// Is reports whether e is of the kind of one of the errors of this package.
func (e *Error) Is(target error) bool {
	return e.kind != nil && target == e.kind || e.reason != nil && target == e.reason
}

// Headers of answers that are errors.
const (
	fullHeader   = "taskengine-full"   // a full backlog was the cause
	reasonHeader = "taskengine-reason" // distinguishes errors that have the same code
)

// reasons has the error of each value of reasonHeader.
var reasons = map[string]error{"children_closed": ErrChildrenClosed, "task_ended": ErrTaskEnded, "too_many_children": ErrTooManyChildren}

// errorOf returns the error of a call.
func errorOf(address string, err error, trailer metadata.MD) error {
	s := status.Convert(err)
	e := newError(address, s.Code(), s.Message(), strings.Join(trailer.Get(fullHeader), ""))
	e.reason = reasons[strings.Join(trailer.Get(reasonHeader), "")]
	return e
}

// outcomeError returns the error of one request of a stream.
func outcomeError(address string, e *taskenginev1.SubmitError) error {
	return newError(address, codeNamed(e.GetCode()), e.GetMessage(), e.GetFull())
}

func newError(address string, code codes.Code, message, full string) *Error {
	e := &Error{Code: names[code], Message: message, Address: address, kind: ErrInternal, isWaited: full == "waited"}
	switch code {
	case codes.InvalidArgument:
		e.kind = ErrInvalid
	case codes.OutOfRange:
		e.kind = ErrLate
	case codes.NotFound:
		e.kind = ErrNotFound
	case codes.Aborted:
		e.kind = ErrConflict
	case codes.AlreadyExists:
		e.kind = ErrExists
	case codes.FailedPrecondition, codes.PermissionDenied, codes.Unauthenticated:
		e.kind = ErrNotAllowed
	case codes.ResourceExhausted:
		e.kind = ErrTooLarge
		if full != "" {
			e.kind = ErrBacklog
		}
	case codes.Unavailable:
		e.kind = ErrUnavailable
	case codes.Unimplemented:
		e.kind = ErrUnsupported
	case codes.DeadlineExceeded:
		e.kind = context.DeadlineExceeded
	case codes.Canceled:
		e.kind = context.Canceled
	}
	return e
}

// names has the codes as docs/api.md writes them.
var names = map[codes.Code]string{
	codes.Canceled: "canceled", codes.Unknown: "unknown", codes.InvalidArgument: "invalid_argument",
	codes.DeadlineExceeded: "deadline_exceeded", codes.NotFound: "not_found", codes.AlreadyExists: "already_exists",
	codes.PermissionDenied: "permission_denied", codes.ResourceExhausted: "resource_exhausted",
	codes.FailedPrecondition: "failed_precondition", codes.Aborted: "aborted", codes.OutOfRange: "out_of_range",
	codes.Unimplemented: "unimplemented", codes.Internal: "internal", codes.Unavailable: "unavailable",
	codes.DataLoss: "data_loss", codes.Unauthenticated: "unauthenticated",
}

func codeNamed(name string) codes.Code {
	for code, n := range names {
		if n == name {
			return code
		}
	}
	return codes.Unknown
}

// mayRepeat reports whether another try may succeed.
func mayRepeat(err error) bool {
	var e *Error
	return errors.As(err, &e) && (e.kind == ErrUnavailable || e.isWaited)
}
