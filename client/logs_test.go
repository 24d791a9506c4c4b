package client_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/taskengine/taskengine/client"
	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/local"
	"github.com/taskengine/taskengine/server"
	"github.com/taskengine/taskengine/server/peer"
	"github.com/taskengine/taskengine/task"
	"github.com/taskengine/taskengine/tasklog"
)

// logging is the log of a node, and a client of the node.
type logging struct {
	log *tasklog.Log
	*client.Client
}

func newLogging(t *testing.T, c server.APIConfig) logging {
	t.Helper()
	c.TaskLog, c.Node = tasklog.Open(tasklog.Options{}), "n1"
	t.Cleanup(func() { _ = c.TaskLog.Close() })
	return logging{log: c.TaskLog, Client: open(t, client.Options{}, serveAPI(t, c))}
}

func (l logging) write(t *testing.T, id task.ID, attempt uint32, text string) {
	t.Helper()
	r := slog.NewRecord(time.Now(), slog.LevelWarn, text, 0)
	r.AddAttrs(slog.Int("n", 1))
	l.log.Log(id, attempt, r)
	if err := l.log.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// texts returns the messages of lines.
func texts(entries []*client.LogEntry) (texts []string) {
	for _, e := range entries {
		if e.Line != nil {
			texts = append(texts, e.Line.Message)
		}
	}
	return texts
}

func (l logging) read(ctx context.Context, id task.ID, r client.LogsRequest) (entries []*client.LogEntry, err error) {
	for e, err := range l.Logs(ctx, id, r) {
		if err != nil {
			return entries, err
		}
		entries = append(entries, e)
	}
	return entries, nil
}

func TestTheLinesOfATaskAreRead(t *testing.T) {
	l := newLogging(t, server.APIConfig{Engine: newTasks(t).engine})
	receipt, err := l.Submit(t.Context(), "idle", nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 1200 { // more than a response has
		l.log.Log(receipt.ID, 1, slog.NewRecord(time.Now(), slog.LevelInfo, fmt.Sprint(i), 0))
	}
	l.write(t, receipt.ID, 2, "last")
	all, err := l.read(t.Context(), receipt.ID, client.LogsRequest{})
	if err != nil || len(all) != 1201 {
		t.Fatalf("%d lines, %v", len(all), err)
	}
	if last := all[1200].Line; last.Message != "last" || last.Attempt != 2 || last.Level != "WARN" || last.Attrs != `{"n":1}` || last.Node != "n1" || time.Since(last.Time) > time.Hour {
		t.Errorf("the last line is %+v", last)
	}
	rest, err := l.read(t.Context(), receipt.ID, client.LogsRequest{Cursor: all[900].Cursor})
	if got := texts(rest); err != nil || len(got) < 300 || got[len(got)-1] != "last" || !slices.Contains(got, "901") {
		t.Errorf("after the line 900 follow %d, %v", len(rest), err)
	}
	if one, err := l.read(t.Context(), receipt.ID, client.LogsRequest{Attempt: 2}); err != nil || !slices.Equal(texts(one), []string{"last"}) {
		t.Errorf("the second attempt has %v, %v", texts(one), err)
	}
	if _, err = l.read(t.Context(), task.ID{7}, client.LogsRequest{}); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("an unknown task: %v", err)
	}
	for range l.Logs(t.Context(), receipt.ID, client.LogsRequest{Follow: true}) {
		break
	}
}

func TestTheLinesOfATaskAreFollowedUntilItHasEnded(t *testing.T) {
	l := newLogging(t, server.APIConfig{Engine: newTasks(t).engine})
	receipt, err := l.Submit(t.Context(), "idle", nil)
	if err != nil {
		t.Fatal(err)
	}
	l.write(t, receipt.ID, 1, "first")
	var got []string
	for e, err := range l.Logs(t.Context(), receipt.ID, client.LogsRequest{Follow: true}) {
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, e.Line.Message); len(got) == 1 {
			l.write(t, receipt.ID, 1, "second")
			continue
		}
		if _, err := l.Cancel(t.Context(), receipt.ID, ""); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(got, []string{"first", "second"}) {
		t.Errorf("the lines are %v", got)
	}
	other, err := l.Submit(t.Context(), "idle", nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	l.write(t, other.ID, 1, "first")
	for _, err := range l.Logs(ctx, other.ID, client.LogsRequest{Follow: true}) {
		if cancel(task.ErrNotFound); err != nil && !errors.Is(err, task.ErrNotFound) {
			t.Errorf("the end is %v", err)
		}
	}
}

func TestALogSaysOfWhichNodesAndAttemptsLinesAreMissing(t *testing.T) {
	n := newTasks(t)
	here := coord.Member{Incarnation: n.engine.Incarnation(), Name: "n1", Address: "http://127.0.0.1:1"}
	gone := coord.Member{Incarnation: task.ID{7}, Name: "n2", Address: "http://127.0.0.1:1"}
	peers := peer.New(peer.Config{
		Name: "n1", Self: n.engine.Incarnation, Members: func() []coord.Member { return []coord.Member{here, gone} }, Secrets: local.New(), Log: slog.New(slog.DiscardHandler),
	})
	t.Cleanup(peers.Close)
	l := newLogging(t, server.APIConfig{Engine: n.engine, Peers: peers})
	receipt, err := l.Submit(t.Context(), "idle", nil)
	if err != nil {
		t.Fatal(err)
	}
	l.write(t, receipt.ID, 1, "here")
	all, err := l.read(t.Context(), receipt.ID, client.LogsRequest{})
	if err != nil || len(all) != 2 || all[0].Line == nil || all[1].Missing == nil || all[1].Line != nil {
		t.Fatalf("the entries are %+v, %v", all, err)
	}
	if silent := all[1].Missing.Silent; len(silent) != 1 || silent[0].Node != "n2" || silent[0].Problem == "" {
		t.Errorf("the silent nodes are %+v", silent)
	}
}
