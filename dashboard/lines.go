package dashboard

import (
	"context"
	"fmt"
	"slices"
	"time"

	"connectrpc.com/connect"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

// linesOnPage is how many log lines are shown at first, and added at once: the newest.
const linesOnPage = 500

// lines are log lines of a task: those after a cursor.
type lines struct {
	All     []*taskenginev1.LogLine
	Earlier int      // lines that are left out
	Cursor  string   // after these lines
	Hidden  string   // why there are none
	Notes   []string // which nodes have not sent theirs
	Lost    []string // which attempts have lines elsewhere
	State   string   // of the task; "" if it is gone
}

// Ended reports whether no more lines come unless somebody has the task run again.
func (l *lines) Ended() bool {
	return slices.Contains([]string{"", "done", "error", "failed", "cancelled"}, l.State)
}

// Running reports whether a handler may be logging now.
func (l *lines) Running() bool { return l.State == "processing" }

// linesPage is the part of the page of a task that its script asks for: the lines after a cursor.
func linesPage() page {
	return page{path: "task/{id}/lines", under: "Tasks", template: "lines", part: true, load: func(v *view) (any, error) {
		id := v.PathValue("id")
		t, err := v.task(id)
		if connect.CodeOf(err) == connect.CodeNotFound && err != nil {
			t, err = new(taskenginev1.Task), nil // its lines may be kept for longer
		}
		if err != nil {
			return nil, err
		}
		l, err := loadLines(v, id, v.URL.Query().Get("after"))
		if err != nil {
			return nil, err
		}
		l.State = t.GetState()
		return l, nil
	}}
}

// loadLines returns the newest log lines of a task after a cursor; "" is the beginning.
func loadLines(v *view, id, after string) (*lines, error) {
	got, err := shared(v, "lines\x00"+id+"\x00"+after, nodesPatience, func(ctx context.Context) (*lines, error) { return readLines(ctx, v, id, after) })
	l := &lines{Cursor: after}
	switch connect.CodeOf(err) {
	case connect.CodePermissionDenied, connect.CodeNotFound, connect.CodeFailedPrecondition, connect.CodeUnimplemented:
		if err != nil {
			l.Hidden = errorText(err)
			return l, nil
		}
	}
	switch {
	case err != nil:
		return nil, err
	case got.Value == nil:
		l.Notes = []string{"The nodes have not sent the lines yet."}
		return l, nil
	}
	found := *got.Value // which is shared
	return &found, nil
}

func readLines(ctx context.Context, v *view, id, after string) (*lines, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	stream, err := v.api().TaskLogs(ctx, &taskenginev1.TaskLogsRequest{Id: id, Cursor: after})
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	l := &lines{Cursor: after}
	shown := make(map[uint32]bool) // attempts
	for stream.Receive() {
		m := stream.Msg()
		for _, line := range m.GetLines() {
			shown[line.GetAttempt()] = true
		}
		l.All = append(l.All, m.GetLines()...)
		if extra := len(l.All) - linesOnPage; extra > 0 {
			l.Earlier += extra
			l.All = append([]*taskenginev1.LogLine(nil), l.All[extra:]...)
		}
		l.Cursor = m.GetCursor()
		for _, s := range m.GetSilent() {
			l.Notes = append(l.Notes, fmt.Sprintf("The lines of node %s are missing, because it does not answer: %s", s.GetNode(), s.GetProblem()))
		}
		for _, e := range m.GetElsewhere() {
			if !e.GetAlive() && !e.GetHere() && !shown[e.GetAttempt()] && after == "" {
				l.Lost = append(l.Lost, fmt.Sprintf("Attempt %d ran on the node %s, which does not run now: its lines are shown when it runs again.", e.GetAttempt(), e.GetNode()))
			}
		}
	}
	return l, stream.Err()
}

// isRefresh reports whether the script asks for a page that is open.
func (v *view) isRefresh() bool { return v.Header.Get(live) != "" }
