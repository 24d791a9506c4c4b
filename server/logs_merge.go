package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/taskengine/taskengine/coord"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
	"github.com/taskengine/taskengine/task"
)

// logCursors are the cursors of the logs of nodes, by their names. A restarted node goes on with its log. Nodes that have a
// name in common differ by their ids.
type logCursors map[string]string

// parseCursors parses a cursor: one of several nodes, or one of this node alone.
func parseCursors(node, cursor string) (logCursors, error) {
	if !strings.Contains(cursor, "=") {
		return logCursors{node: cursor}, nil
	}
	values, err := url.ParseQuery(cursor)
	if err != nil {
		return nil, fmt.Errorf("%.40q is no cursor of logs", cursor)
	}
	c := make(logCursors, len(values))
	for name := range values {
		c[name] = values.Get(name)
	}
	return c, nil
}

func (c logCursors) String() string {
	values := make(url.Values, len(c))
	for name, cursor := range c {
		if cursor != "" {
			values.Set(name, cursor)
		}
	}
	return values.Encode()
}

// logSource is a node whose lines are merged. The goroutine of its merger has it, apart from next.
type logSource struct {
	node coord.Member
	key  string        // of its cursor
	next chan struct{} // receives when it may send its next response; holds one

	isHere     bool                           // its lines are of this node or of the store
	head       *taskenginev1.TaskLogsResponse // the next response, which has lines
	isCaught   bool                           // with follow: it has sent the lines that there were
	isComplete bool                           // it has said that there are no more lines
	isOver     bool                           // there are no more responses
	err        error                          // why, if not all lines were sent
}

// logEvent is a response of a node, or the end of its responses.
type logEvent struct {
	of  *logSource
	res *taskenginev1.TaskLogsResponse // nil at the end
	err error
}

// logMerger merges the lines of nodes. One goroutine has it, apart from the channel.
type logMerger struct {
	sources  []*logSource // this node first
	events   chan logEvent
	work     sync.WaitGroup // of the sources
	cursors  logCursors
	follow   bool
	patience time.Duration // for the next response of a node that has to send lines

	emit  func(*taskenginev1.TaskLogsResponse) error
	lines []*taskenginev1.LogLine // of the next response
	size  int                     // bytes of their texts
	any   bool                    // there was a line
}

// logPatience is how long a response is waited for where there are no other nodes.
const logPatience = 3 * time.Second

// mergeLogs sends the lines of this node, of others and, if inStore is true, of the store, each attempt in one piece. unknown says why other nodes are
// not known.
func (a *API) mergeLogs(ctx context.Context, q logQuery, inStore bool, nodes []coord.Member, unknown error, send func(*taskenginev1.TaskLogsResponse) error) error {
	begun, cancel := context.WithCancel(ctx)
	m := &logMerger{events: make(chan logEvent), cursors: maps.Clone(q.cursors), follow: q.follow && !q.gone, patience: logPatience, emit: send}
	if a.peers != nil {
		m.patience = a.peers.Timeout()
	}
	defer m.work.Wait()
	defer cancel()
	q.byAttempt = true
	self := coord.Member{Name: a.node, Incarnation: a.engine.Incarnation()}
	if !a.taskLog.IsStored() {
		m.add(begun, self, a.node, func(send func(*taskenginev1.TaskLogsResponse) error) error { return a.ownLogs(begun, q, send) })
	}
	if inStore {
		m.add(begun, self, storeKey, func(send func(*taskenginev1.TaskLogsResponse) error) error {
			return a.linesInStore(begun, q, func(at string) string { return at }, send)
		})
	}
	for _, s := range m.sources {
		s.isHere = true
	}
	asking := a.forCaller(begun)
	for _, node := range nodes {
		key := nodeName(&node)
		if key == a.node || slices.ContainsFunc(nodes, func(o coord.Member) bool { return o.Incarnation != node.Incarnation && nodeName(&o) == key }) {
			key = node.Incarnation.String()
		}
		cursor := q.cursors[key]
		m.add(begun, node, key, func(send func(*taskenginev1.TaskLogsResponse) error) error {
			return a.peers.Use(asking, &node, func(c taskenginev1connect.TaskServiceClient) error { return receiveLogs(asking, c, q, cursor, send) })
		})
	}
	err := m.run(ctx)
	if err != nil && !polled(ctx) {
		return err
	}
	return m.finish(ctx, a, q, unknown, err == nil)
}

// receiveLogs passes on the responses of another node.
func receiveLogs(ctx context.Context, c taskenginev1connect.TaskServiceClient, q logQuery, cursor string, send func(*taskenginev1.TaskLogsResponse) error) error {
	stream, err := c.TaskLogs(ctx, &taskenginev1.TaskLogsRequest{
		Id: q.id.String(), Attempt: q.attempt, Follow: q.follow, Cursor: cursor, Timeout: durationpb.New(MaxWait),
	})
	if err != nil {
		return err
	}
	defer stream.Close()
	for stream.Receive() {
		if err := send(stream.Msg()); err != nil {
			return err
		}
	}
	return stream.Err()
}

// add begins to receive the lines of a node, until ctx ends.
func (m *logMerger) add(ctx context.Context, node coord.Member, key string, receive func(send func(*taskenginev1.TaskLogsResponse) error) error) {
	s := &logSource{node: node, key: key, next: make(chan struct{}, 1)}
	m.sources = append(m.sources, s)
	m.work.Go(func() {
		err := receive(func(res *taskenginev1.TaskLogsResponse) error {
			// The stream may use the message again.
			e := logEvent{of: s, res: &taskenginev1.TaskLogsResponse{Lines: res.GetLines(), Cursor: res.GetCursor(), Complete: res.GetComplete()}}
			select {
			case m.events <- e:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			select {
			case <-s.next:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
		select {
		case m.events <- logEvent{of: s, err: err}:
		case <-ctx.Done():
		}
	})
}

// run sends lines until all nodes have sent theirs, or do not answer. With follow that is after the end of the task.
func (m *logMerger) run(ctx context.Context) error {
	patience := time.NewTimer(m.patience)
	defer patience.Stop()
	for {
		late := patience.C
		switch waits := m.waits(); {
		case len(waits) == 0 && m.earliest() != nil:
			if err := m.take(m.earliest()); err != nil {
				return err
			}
			continue
		case len(waits) == 0:
			if err := m.flush(); err != nil || m.isOver() {
				return err
			}
			late = nil // the task runs
		}
		select {
		case e := <-m.events:
			m.got(e)
			patience.Reset(m.patience)
		case <-late:
			for _, s := range m.waits() {
				s.isOver, s.err = true, fmt.Errorf("it did not answer within %v", m.patience)
			}
			patience.Reset(m.patience)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// waits returns the nodes that have to send something: those that have not sent the lines that there were or, when the task has
// ended, their last lines.
func (m *logMerger) waits() (waits []*logSource) {
	hasEnded := m.sources[0].isComplete
	for _, s := range m.sources {
		if s.head == nil && !s.isOver && (!s.isCaught || hasEnded) {
			waits = append(waits, s)
		}
	}
	return waits
}

// isOver reports whether no node sends anything any more.
func (m *logMerger) isOver() bool {
	return !slices.ContainsFunc(m.sources, func(s *logSource) bool { return !s.isOver })
}

// got takes what a node has sent.
func (m *logMerger) got(e logEvent) {
	s := e.of
	switch {
	case s.isOver: // it was late
	case e.res == nil:
		s.isOver, s.err = true, e.err
	default:
		s.isComplete = e.res.GetComplete()
		if len(e.res.GetLines()) > 0 {
			s.head = e.res
			return
		}
		s.isCaught = m.follow
		m.cursors[s.key] = e.res.GetCursor()
		s.next <- struct{}{}
	}
}

// earliest returns the node with the earliest next response; nil if no response is there.
func (m *logMerger) earliest() (first *logSource) {
	for _, s := range m.sources {
		if s.head != nil && (first == nil || beginOf(s.head).Before(beginOf(first.head))) {
			first = s
		}
	}
	return first
}

// beginOf returns the time of the first line of a response, which has one.
func beginOf(res *taskenginev1.TaskLogsResponse) time.Time {
	return res.GetLines()[0].GetTime().AsTime()
}

// take adds the next response of a node to the lines that are to be sent.
func (m *logMerger) take(s *logSource) error {
	for _, line := range s.head.GetLines() {
		m.lines, m.size = append(m.lines, line), m.size+len(line.GetMessage())+len(line.GetAttrs())
	}
	m.cursors[s.key] = s.head.GetCursor()
	s.head = nil
	s.next <- struct{}{}
	if len(m.lines) >= logLines || m.size >= logBytes {
		return m.flush()
	}
	return nil
}

// flush sends the lines, if there are any.
func (m *logMerger) flush() error {
	if len(m.lines) == 0 {
		return nil
	}
	res := &taskenginev1.TaskLogsResponse{Lines: m.lines, Cursor: m.cursors.String()}
	m.lines, m.size, m.any = nil, 0, true
	return m.emit(res)
}

// finish sends the last response.
func (m *logMerger) finish(ctx context.Context, a *API, q logQuery, unknown error, complete bool) error {
	var silent []*taskenginev1.SilentNode
	if unknown != nil {
		silent = append(silent, unknownNodes(unknown))
	}
	for _, s := range m.sources {
		switch code := connect.CodeOf(s.err); {
		case s.err == nil:
			complete = complete && s.isComplete
		case errors.Is(s.err, task.ErrNotFound), code == connect.CodeNotFound, code == connect.CodeFailedPrecondition: // it has no lines, or keeps none
		case s.isHere:
			return s.err
		default:
			silent = append(silent, silentOf(&s.node, s.err))
		}
	}
	m.any = m.any || len(m.lines) > 0
	if complete && q.gone && q.isFirst && !m.any && len(silent) == 0 {
		return task.ErrNotFound
	}
	res := &taskenginev1.TaskLogsResponse{Lines: m.lines, Cursor: m.cursors.String(), Complete: complete, Silent: silent}
	if complete {
		if !a.taskLog.IsStored() {
			res.Elsewhere = ranElsewhere(a.elsewhere(ctx, q.id, q.gone), q.attempt)
		}
	}
	return m.emit(res)
}
