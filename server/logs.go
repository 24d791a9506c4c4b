package server

import (
	"cmp"
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

	// storedDelay is how often a follower reads a log in the store, and storedEnd how long after the end of its task it reads for the last time: other
	// nodes write lines some time after they were logged.
	storedDelay = tasklog.StoreEvery
	storedEnd   = 2 * tasklog.StoreEvery
)

var errNoTaskLog = errors.New("this node keeps no log of its tasks; task_log.max_size in its configuration says how much to keep")

// TaskLogs sends the log lines of handlers about a task.
func (a *API) TaskLogs(ctx context.Context, req *taskenginev1.TaskLogsRequest, stream *connect.ServerStream[taskenginev1.TaskLogsResponse]) error {
	return a.taskLogs(ctx, req, stream.Send)
}

func (a *API) taskLogs(ctx context.Context, req *taskenginev1.TaskLogsRequest, send func(*taskenginev1.TaskLogsResponse) error) error {
	if a.taskLog == nil && a.peers == nil && a.storedLogs == nil {
		return connect.NewError(connect.CodeUnimplemented, errNoTaskLog)
	}
	q := logQuery{attempt: req.GetAttempt(), follow: req.GetFollow(), isFirst: req.GetCursor() == ""}
	var err error
	if q.id, err = parseID(req.GetId()); err != nil {
		return a.answer(err)
	}
	if q.cursors, err = parseCursors(a.node, req.GetCursor()); err != nil {
		return a.answer(invalid("cursor: %w", err))
	}
	timeout, err := pollOf(req.GetTimeout())
	if err != nil {
		return a.answer(err)
	}
	t, err := a.engine.Get(ctx, q.id)
	q.gone = errors.Is(err, task.ErrNotFound)
	switch {
	case err == nil, errors.Is(err, engine.ErrUnreadable):
		q.since = t.CreatedAt
		err = a.permit(ctx, t.Type)
	case !q.gone:
		return a.answer(err)
	default:
		err = a.permitFilter(ctx, nil) // its type is not known
	}
	if err != nil {
		return err
	}
	if send, err = a.veiledLines(ctx, q.id, q.gone, send); err != nil {
		return a.answer(err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, errPolled)
	defer cancel()
	send = rechecked(a, ctx, send)
	if err := a.sendLogs(ctx, q, send); err != nil {
		return a.answer(err)
	}
	return nil
}

// sendLogs sends lines of the store, of this node and of others.
func (a *API) sendLogs(ctx context.Context, q logQuery, send func(*taskenginev1.TaskLogsResponse) error) (err error) {
	asked := ctx.Value(askedKey{}) != nil
	inStore := a.taskLog.IsStored()
	if !inStore && !asked && a.storedLogs != nil { // other nodes may keep them there, or this one did
		if inStore, err = a.storedLogs.Has(ctx, q.id); err != nil {
			return err
		}
	}
	nodes, unknown := a.others(ctx)
	switch {
	case len(nodes) > 0 || unknown != nil || inStore && !a.taskLog.IsStored():
		return a.mergeLogs(ctx, q, inStore, nodes, unknown, send)
	case inStore && !asked:
		return a.linesInStore(ctx, q, func(at string) string { return logCursors{storeKey: at}.String() }, send)
	case a.taskLog == nil && !asked:
		return connect.NewError(connect.CodeUnimplemented, errNoTaskLog)
	}
	q.byAttempt = asked
	return a.ownLogs(ctx, q, send)
}

// storeKey is the key of the cursor of the logs in the store. No node has it as its name.
const storeKey = ""

// linesInStore sends the lines of the store.
func (a *API) linesInStore(ctx context.Context, q logQuery, cursor func(string) string, send func(*taskenginev1.TaskLogsResponse) error) error {
	at, err := tasklog.ParseCursor(q.cursors[storeKey])
	if err != nil {
		return invalid("cursor: %w", err)
	}
	lines := &logSender{
		elsewhere: func() []engine.RanElsewhere { return nil }, cursor: cursor,
		attempt: q.attempt, byAttempt: q.byAttempt, emit: send, missing: q.gone && q.isFirst,
	}
	if a.taskLog.IsStored() {
		lines.reader = a.taskLog.Reader(q.id, q.since, at)
	} else {
		lines.reader = a.storedLogs.Reader(q.id, at)
	}
	return lines.all(ctx, q, nil, a.engine)
}

// logQuery is a request for the lines of a task.
type logQuery struct {
	id        task.ID
	since     time.Time // when the task was added; zero if it is gone
	gone      bool      // there is no task with the id
	attempt   uint32    // 0 for all
	follow    bool
	isFirst   bool       // it has no cursor
	cursors   logCursors // of the nodes
	byAttempt bool       // for a node that merges: no response has lines of two attempts, and with follow an empty one follows the lines that there are
}

// ownLogs sends the lines that this node has.
func (a *API) ownLogs(ctx context.Context, q logQuery, send func(*taskenginev1.TaskLogsResponse) error) error {
	if a.taskLog == nil || a.taskLog.IsStored() {
		return connect.NewError(connect.CodeFailedPrecondition, errNoTaskLog)
	}
	at, err := tasklog.ParseCursor(q.cursors[a.node])
	if err != nil {
		return invalid("cursor: %w", err)
	}
	lines := &logSender{
		elsewhere: func() []engine.RanElsewhere { return a.elsewhere(ctx, q.id, q.gone) }, cursor: func(at string) string { return at },
		reader: a.taskLog.Reader(q.id, q.since, at), node: a.node, attempt: q.attempt, byAttempt: q.byAttempt, emit: send,
		missing: q.gone && q.isFirst,
	}
	return lines.all(ctx, q, a.taskLog, a.engine)
}

// all sends all lines that q asks for: of files of a log, or with nil, of the store.
func (s *logSender) all(ctx context.Context, q logQuery, log *tasklog.Log, e *engine.Engine) (err error) {
	if q.follow && !q.gone {
		err = s.follow(ctx, log, e, q.id)
	} else {
		err = s.finish(ctx)
	}
	if err != nil && polled(ctx) {
		err = s.send(false)
	}
	return err
}

// logSender sends the lines of a reader.
type logSender struct {
	reader    *tasklog.Reader
	node      string // its name
	attempt   uint32 // the attempt to send; 0 for all
	byAttempt bool   // see logQuery

	elsewhere func() []engine.RanElsewhere // which attempts ran on other nodes
	cursor    func(string) string          // makes the cursor of a response of that of the reader
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
			if log != nil {
				more = log.Changed()
			}
			if err := s.read(ctx); err != nil {
				return err
			}
			if len(s.lines) > 0 {
				if err := s.send(false); err != nil {
					return err
				}
			}
			if s.byAttempt {
				s.byAttempt = false // from now on, lines are sent as they come
				if err := s.send(false); err != nil {
					return err
				}
			}
			if log == nil {
				delay.Reset(storedDelay)
			}
		case <-more:
			more = nil
			delay.Reset(followDelay)
		case err := <-settled:
			if err != nil {
				return err
			}
			if log == nil {
				select {
				case <-time.After(storedEnd):
				case <-ctx.Done():
					return context.Cause(ctx)
				}
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
	before, at := s.reader.Cursor(), s.reader.Cursor() // after the line before, and after this one
	for line, err := range s.reader.Lines(ctx) {
		if err != nil {
			return err
		}
		before, at = at, s.reader.Cursor()
		s.missing = false
		if s.attempt != 0 && s.attempt != line.Attempt {
			continue
		}
		if n := len(s.lines); s.byAttempt && n > 0 && s.lines[n-1].GetAttempt() != line.Attempt {
			if err := s.sendTo(before, false); err != nil {
				return err
			}
		}
		s.lines = append(s.lines, lineOf(line, s.node))
		s.size += len(line.Message) + len(line.Attrs)
		if len(s.lines) == logLines || s.size >= logBytes {
			if err := s.send(false); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *logSender) send(complete bool) error { return s.sendTo(s.reader.Cursor(), complete) }

// sendTo sends the lines, which end at a cursor.
func (s *logSender) sendTo(at tasklog.Cursor, complete bool) error {
	res := &taskenginev1.TaskLogsResponse{Lines: s.lines, Cursor: s.cursor(at.String()), Complete: complete}
	s.lines, s.size = nil, 0
	if complete {
		res.Elsewhere = ranElsewhere(s.elsewhere(), s.attempt)
	}
	return s.emit(res)
}

// ranElsewhere returns the message of attempts on other nodes: of one attempt, or of all with 0.
func ranElsewhere(all []engine.RanElsewhere, attempt uint32) (out []*taskenginev1.RanElsewhere) {
	for _, ran := range all {
		if attempt == 0 || attempt == ran.Attempt {
			out = append(out, &taskenginev1.RanElsewhere{Attempt: ran.Attempt, Node: text(ran.Node), Alive: ran.IsAlive, Here: ran.IsHere})
		}
	}
	return out
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

func lineOf(l tasklog.Line, node string) *taskenginev1.LogLine {
	node = cmp.Or(l.Node, node)
	return &taskenginev1.LogLine{
		Attempt: l.Attempt, Time: timestamppb.New(l.Time), Level: l.Level.String(), Message: text(l.Message),
		Attrs: text(string(l.Attrs)), Dropped: uint64(l.Dropped), Cut: l.Cut, Node: text(node),
	}
}
