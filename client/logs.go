package client

import (
	"context"
	"iter"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
	"github.com/taskengine/taskengine/task"
)

// LogsRequest selects lines of the log of a task.
type LogsRequest struct {
	// Attempt restricts the lines to those of one attempt; 0 is all. The count of attempts starts again when a task that had ended is
	// resumed.
	Attempt uint32
	Follow  bool   // new lines follow as they come, until the task has ended
	Cursor  string // of an earlier entry; empty for the first line
}

// LogEntry is a line that a handler has logged or, as the last entry, which lines are missing: exactly one of Line and Missing is set.
type LogEntry struct {
	Line    *LogLine
	Missing *MissingLines
	Cursor  string // where to go on after the entry; a few lines may come again
}

// LogLine is a line that a handler has logged.
type LogLine struct {
	Attempt uint32
	Time    time.Time
	Level   string // DEBUG, INFO, WARN or ERROR, or one of these with an offset, such as INFO+2
	Message string
	Attrs   string // its attributes, as the text of a JSON object; empty if there are none
	Dropped uint64 // if not 0, this is no line: so many lines are missing here, because too many were logged
	Cut     bool   // the line was too long: its texts are truncated
	Node    string // that has the line
}

// MissingLines says which lines of a log are missing.
type MissingLines struct {
	Elsewhere []RanElsewhere // attempts that ran on other nodes, and of which no line has come
	Silent    []SilentNode   // nodes that did not answer
}

// RanElsewhere says on which node an attempt ran, or runs.
type RanElsewhere struct {
	Attempt uint32
	Node    string // its name
	Alive   bool   // a node with this name is alive
	Here    bool   // the node that was asked has this name
}

// Logs returns the lines that handlers have logged about a task, the oldest attempt first, as far as the nodes keep them. It also returns the
// lines of a task that was removed. If lines may be missing, the last entry says which. A node that is gone is replaced by another one, which
// goes on at the cursor. The error wraps [ErrNotFound] if there is neither a task nor a line.
func (c *Client) Logs(ctx context.Context, id task.ID, r LogsRequest) iter.Seq2[*LogEntry, error] {
	return func(yield func(*LogEntry, error) bool) {
		req := &taskenginev1.TaskLogsRequest{Id: id.String(), Attempt: r.Attempt, Follow: r.Follow, Cursor: r.Cursor, Timeout: durationpb.New(streamPoll)}
		l := &logReader{shown: make(map[uint32]bool)}
		follow(ctx, c, taskenginev1connect.TaskServiceTaskLogsProcedure, req, l.pass, yield)
	}
}

// logReader passes on the lines of responses. The goroutine of a loop has it.
type logReader struct {
	shown map[uint32]bool // the attempts of which a line has come
}

func (l *logReader) pass(req *taskenginev1.TaskLogsRequest, res *taskenginev1.TaskLogsResponse, yield func(*LogEntry, error) bool) error {
	for i, m := range res.GetLines() {
		l.shown[m.GetAttempt()] = true
		if i == len(res.GetLines())-1 {
			req.Cursor = res.GetCursor()
		}
		if !yield(&LogEntry{Line: new(logLineOf(m)), Cursor: req.GetCursor()}, nil) {
			return errStopped
		}
	}
	if req.Cursor = res.GetCursor(); !res.GetComplete() {
		return nil
	}
	missing := &MissingLines{Silent: all(res.GetSilent(), silentOf)}
	for _, m := range res.GetElsewhere() {
		if !l.shown[m.GetAttempt()] {
			missing.Elsewhere = append(missing.Elsewhere, elsewhereOf(m))
		}
	}
	if missing.Silent != nil || missing.Elsewhere != nil {
		yield(&LogEntry{Missing: missing, Cursor: req.GetCursor()}, nil)
	}
	return errComplete
}

func logLineOf(m *taskenginev1.LogLine) LogLine {
	return LogLine{
		Attempt: m.GetAttempt(), Time: timeOf(m.GetTime()), Level: m.GetLevel(), Message: m.GetMessage(), Attrs: m.GetAttrs(),
		Dropped: m.GetDropped(), Cut: m.GetCut(), Node: m.GetNode(),
	}
}

func elsewhereOf(m *taskenginev1.RanElsewhere) RanElsewhere {
	return RanElsewhere{Attempt: m.GetAttempt(), Node: m.GetNode(), Alive: m.GetAlive(), Here: m.GetHere()}
}
