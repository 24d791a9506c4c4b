package conform

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/plugins/internal/wire"
	"github.com/taskengine/taskengine/task"
)

// documentChecks returns the checks of documents that tasks read and write.
func documentChecks() []check {
	const reads = "documents: reads the document of the payload, returns it, and replaces the version that it has read by the data with more text"
	const never = "without the feature the call or the finish is a permanent error of class unsupported: the host would not do it"
	return []check{
		alone(full, "documents", "a task reads a document, and replaces the version that it has read", reads, func(_ *exam, s *session) error { return s.replacesDocument() }),
		alone(full, "documents", "a task creates a document that it has not found, and writes and deletes others", reads, func(_ *exam, s *session) error { return s.createsDocument() }),
		alone(full, "documents", "a task that cannot read a document fails, unless it goes on without", reads, func(_ *exam, s *session) error {
			return s.asksInVain("documents", `{"read": "a", "append": "1"}`, notRead)
		}),
		in(wide, "documents", "without the feature a read of a document fails its task for good", never, func(s *session) error {
			return s.unsupported("documents", `{"read": "a"}`)
		}),
		in(wide, "documents", "without the feature a write of a document fails its task for good", never, func(s *session) error {
			return s.unsupported("documents", `{"write": [{"key": "a", "data": "x"}]}`)
		}),
		onANode("documents", "tasks of a node count in a document, each once", reads, seeCount),
		onANode("documents", "a node refuses a document that its handler may not use, and writes none of the finish", "the class of the error is forbidden", seeForbiddenDocument),
	}
}

// The keys of the documents that the program may use on a node.
var (
	mayWrite = []string{"count/*"}
	mayRead  = []string{"price"}
)

// readDocument is the result of a task of the type documents: the document that it has read.
type readDocument struct {
	Data    string `json:"data"`
	Version string `json:"version"`
	Expires int64  `json:"expires_ms"`
}

func readIn(result []byte) (d readDocument, err error) {
	if err := json.Unmarshal(result, &d); err != nil {
		return d, fmt.Errorf("the result is %.500q: %w", result, err)
	}
	return d, nil
}

// asksForDocument submits a task that asks for a document.
func (s *session) asksForDocument(payload, key string) (*wire.Run, uint64, error) {
	return s.asks("documents", payload, func(run, number uint64) question {
		return &wire.ReadDocument{RunId: run, Number: number, Key: key}
	})
}

func notRead(run, number uint64, why string) *wire.ToHandler {
	return &wire.ToHandler{Documents: []*wire.DocumentRead{{RunId: run, Number: number, Error: why}}}
}

// answersRead answers a read, and compares the finish.
func (s *session) answersRead(run *wire.Run, answer *wire.DocumentRead, learnt readDocument, writes []*wire.WriteDocument) error {
	if err := s.send(&wire.ToHandler{Documents: []*wire.DocumentRead{answer}}); err != nil {
		return err
	}
	f, err := s.finish(run)
	if err != nil {
		return err
	}
	result, err := resultOf(f)
	if err != nil {
		return err
	}
	got, err := readIn(result)
	if err != nil {
		return err
	}
	if got != learnt {
		return fmt.Errorf("it learnt %+v, wanted is %+v", got, learnt)
	}
	return sameFinish(f, &wire.Finish{RunId: run.GetRunId(), Outcome: &wire.Finish_Result{Result: result}, Documents: writes})
}

func (s *session) replacesDocument() error {
	run, number, err := s.asksForDocument(`{"read": "stöck/a", "append": "é"}`, "stöck/a")
	if err != nil {
		return err
	}
	version, expires := uint64(1<<62+1), int64(2_000_000_000_000_000) // no number of double precision
	answer := &wire.DocumentRead{RunId: run.GetRunId(), Number: number, Version: version, Data: []byte("sö"), ExpiresAt: expires, CreatedAt: 1, UpdatedAt: 2}
	return s.answersRead(run, answer, readDocument{"sö", strconv.FormatUint(version, 10), expires / 1000}, []*wire.WriteDocument{
		{Key: "stöck/a", Data: []byte("söé"), Replaces: &version, ExpiresAt: expires},
	})
}

func (s *session) createsDocument() error {
	const writes = `[{"key": "b", "data": ""}, {"key": "c", "delete": true}, {"key": "d", "data": "x", "expires_ms": 1900000000000}]`
	run, number, err := s.asksForDocument(`{"read": "a", "append": "1", "write": `+writes+`}`, "a")
	if err != nil {
		return err
	}
	answer := &wire.DocumentRead{RunId: run.GetRunId(), Number: number}
	return s.answersRead(run, answer, readDocument{Version: "0"}, []*wire.WriteDocument{
		{Key: "a", Data: []byte("1"), Replaces: new(uint64)}, {Key: "b"}, {Key: "c", Delete: true}, {Key: "d", Data: []byte("x"), ExpiresAt: 1_900_000_000_000_000},
	})
}

// seeCount has tasks of a node write one document at a time: most of them conflict.
func seeCount(ctx context.Context, n realNode) error {
	const key, tasks = "count/a", manySlots
	request := engine.Request{Type: "documents", Payload: []byte(`{"read": "` + key + `", "append": "x"}`)}
	receipts, err := n.Submit(ctx, slices.Repeat([]engine.Request{request}, tasks)...)
	if err != nil {
		return err
	}
	seen := make(map[string]bool)
	for _, r := range receipts {
		result, err := n.result(ctx, r.ID)
		if err != nil {
			return err
		}
		d, err := readIn(result)
		if err != nil {
			return err
		}
		seen[d.Data] = true
	}
	d, err := n.Document(ctx, key)
	if err != nil {
		return err
	}
	if string(d.Data) != strings.Repeat("x", tasks) || len(seen) != tasks {
		return fmt.Errorf("after %d tasks that add an x the document is %.100q, and they have read %d texts", tasks, d.Data, len(seen))
	}
	return nil
}

// seeForbiddenDocument has a task write two documents, of which its handler may write one, and another one read what it may.
func seeForbiddenDocument(ctx context.Context, n realNode) error {
	receipts, err := n.Submit(ctx, engine.Request{Type: "documents", Payload: []byte(`{"write": [{"key": "count/b", "data": "x"}, {"key": "price", "data": "1"}]}`)})
	if err != nil {
		return err
	}
	id := receipts[0].ID
	if err := n.WaitTasks(ctx, id); err != nil {
		return fmt.Errorf("a node waited for its task: %w", err)
	}
	t, err := n.Get(ctx, id)
	if err != nil {
		return err
	}
	if t.State != task.Error || !strings.Contains(t.LastError, "may_write") {
		return fmt.Errorf("the task is %v: %.300s", t.State, t.LastError)
	}
	for _, key := range []string{"count/b", "price"} {
		if d, err := n.Document(ctx, key); !errors.Is(err, task.ErrNotFound) {
			return fmt.Errorf("the document %s is %v (%w)", key, d, err)
		}
	}
	if err := n.WriteDocuments(ctx, task.DocumentWrite{Key: "price", Data: []byte("7")}); err != nil {
		return err
	}
	result, err := done(ctx, n, engine.Request{Type: "documents", Payload: []byte(`{"read": "price"}`)})
	if err != nil {
		return err
	}
	if d, err := readIn(result); err != nil || d.Data != "7" || d.Version == "0" {
		return fmt.Errorf("the result is %.300q (%w)", result, err)
	}
	return nil
}
