package server

import (
	"context"
	"errors"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/taskengine/taskengine/engine"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/task"
	"github.com/taskengine/taskengine/tasklog"
)

const (
	// Bounds of one response of TaskLogs. The last line of a response may exceed logBytes.
	logLines = 500
	logBytes = 256 << 10

	// followDelay is how long a follower waits after a new line before it reads. Each read makes the task log write its
	// buffer: without the delay a busy log would be written line by line.
	followDelay = 100 * time.Millisecond
)

var errNoTaskLog = errors.New("this node keeps no log of its tasks; task_log.max_size in its configuration says how much to keep")

// TaskLogs sends the log lines of handlers about a task.
func (a *API) TaskLogs(ctx context.Context, req *taskenginev1.TaskLogsRequest, stream *connect.ServerStream[taskenginev1.TaskLogsResponse]) error {
	return a.taskLogs(ctx, req, stream.Send)
}

func (a *API) taskLogs(ctx context.Context, req *taskenginev1.TaskLogsRequest, send func(*taskenginev1.TaskLogsResponse) error) error {
	if a.taskLog == nil {
		return connect.NewError(connect.CodeUnimplemented, errNoTaskLog)
	}
	id, err := parseID(req.GetId())
	if err != nil {
		return a.answer(err)
	}
	at, err := tasklog.ParseCursor(req.GetCursor())
	if err != nil {
		return a.answer(invalid("cursor: %w", err))
	}
	timeout, err := pollOf(req.GetTimeout())
	if err != nil {
		return a.answer(err)
	}
	var since time.Time
	t, err := a.engine.Get(ctx, id)
	gone := errors.Is(err, task.ErrNotFound)
	switch {
	case err == nil, errors.Is(err, engine.ErrUnreadable):
		since = t.CreatedAt
		err = a.permit(ctx, t.Type)
	case !gone:
		return a.answer(err)
	default:
		err = a.permitFilter(ctx, nil) // its type is not known
	}
	if err != nil {
		return err
	}
	if send, err = a.veiledLines(ctx, id, gone, send); err != nil {
		return a.answer(err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, errPolled)
	defer cancel()
	lines := &logSender{
		elsewhere: func() []engine.RanElsewhere { return a.elsewhere(ctx, id, gone) },
		reader:    a.taskLog.Reader(id, since, at), attempt: req.GetAttempt(), emit: rechecked(a, ctx, send),
		missing: gone && req.GetCursor() == "",
	}
	if req.GetFollow() && !gone {
		err = lines.follow(ctx, a.taskLog, a.engine, id)
	} else {
		err = lines.finish(ctx)
	}
	if err != nil && polled(ctx) {
		err = lines.send(false)
	}
	if err != nil {
		return a.answer(err)
	}
	return nil
}

// logSender sends the lines of a reader.
type logSender struct {
	reader  *tasklog.Reader
	attempt uint32 // the attempt to send; 0 for all

	elsewhere func() []engine.RanElsewhere // which attempts ran on other nodes
	emit      func(*taskenginev1.TaskLogsResponse) error

	lines   []*taskenginev1.LogLine // of the next response
	size    int                     // bytes of their texts
	missing bool                    // there is no task with the id, and no line so far
}

// follow sends lines as they come until the task or ctx has ended.
func (s *logSender) follow(ctx context.Context, log *tasklog.Log, e *engine.Engine, id task.ID) error {
	ctx, cancel := context.WithCancel(ctx)
	settled := make(chan error, 1)
	go func() { settled <- e.WaitTasks(ctx, id); close(settled) }()
	defer func() {
		cancel()
		for range settled { // wait until it has returned
		}
	}()
	var more <-chan struct{} // nil while delay is running
	delay := time.NewTimer(0)
	defer delay.Stop()
	for {
		select {
		case <-delay.C:
			more = log.Changed()
			if err := s.read(ctx); err != nil {
				return err
			}
			if len(s.lines) > 0 {
				if err := s.send(false); err != nil {
					return err
				}
			}
		case <-more:
			more = nil
			delay.Reset(followDelay)
		case err := <-settled:
			if err != nil {
				return err
			}
			return s.finish(ctx) // sends the lines that were logged before the end
		}
	}
}

// finish sends all lines as the last response.
func (s *logSender) finish(ctx context.Context) error {
	if err := s.read(ctx); err != nil {
		return err
	}
	if s.missing {
		return task.ErrNotFound
	}
	return s.send(true)
}

// read reads all lines and sends full responses. It keeps the lines of the last response.
func (s *logSender) read(ctx context.Context) error {
	for line, err := range s.reader.Lines(ctx) {
		if err != nil {
			return err
		}
		s.missing = false
		if s.attempt != 0 && s.attempt != line.Attempt {
			continue
		}
		s.lines = append(s.lines, lineOf(line))
		s.size += len(line.Message) + len(line.Attrs)
		if len(s.lines) == logLines || s.size >= logBytes {
			if err := s.send(false); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *logSender) send(complete bool) error {
	res := &taskenginev1.TaskLogsResponse{Lines: s.lines, Cursor: s.reader.Cursor().String(), Complete: complete}
	s.lines, s.size = nil, 0
	if complete {
		for _, ran := range s.elsewhere() {
			if s.attempt == 0 || s.attempt == ran.Attempt {
				res.Elsewhere = append(res.Elsewhere, &taskenginev1.RanElsewhere{Attempt: ran.Attempt, Node: text(ran.Node), Alive: ran.IsAlive, Here: ran.IsHere})
			}
		}
	}
	return s.emit(res)
}

// elsewhere returns which attempts of a task ran on other nodes, as far as its row is there.
func (a *API) elsewhere(ctx context.Context, id task.ID, gone bool) []engine.RanElsewhere {
	if gone {
		return nil
	}
	t, err := a.engine.Get(ctx, id)
	if err != nil && !errors.Is(err, engine.ErrUnreadable) {
		return nil // the lines count
	}
	return a.engine.Elsewhere(t)
}

func lineOf(l tasklog.Line) *taskenginev1.LogLine {
	return &taskenginev1.LogLine{
		Attempt: l.Attempt, Time: timestamppb.New(l.Time), Level: l.Level.String(), Message: text(l.Message),
		Attrs: text(string(l.Attrs)), Dropped: uint64(l.Dropped), Cut: l.Cut,
	}
}
