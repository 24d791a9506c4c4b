package conform

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/plugins/internal/wire"
	"github.com/taskengine/taskengine/task"
)

// waitChecks returns the checks of waits for signals, of checkpoints that the host has stored, and of flows of steps.
func waitChecks() []check {
	const asks = "await: waits for the signals, with the timeout, result and checkpoint of the payload, unless it was woken; then it returns by what"
	const keep = "keep: keeps the payload as a checkpoint, and returns \"stored\" when the host has stored it, or fails with the reason"
	const flow = "flow: a flow of the steps begin, a wait for packed, and end; see docs/handlers.md"
	return []check{
		in(full, "await", "a task waits for signals", asks, func(s *session) error {
			return s.awaits(`{"names": ["paid", "vöid"], "result": "so far"}`, &wire.Again{Wait: &wire.Wait{Names: []string{"paid", "vöid"}}})
		}),
		in(full, "await", "a task waits for signals for a while, with a checkpoint", asks, func(s *session) error {
			return s.awaits(`{"names": ["paid"], "timeout_ms": 90000, "result": "so far", "checkpoint": "page 2"}`,
				&wire.Again{Checkpoint: []byte("page 2"), Wait: &wire.Wait{Names: []string{"paid"}}, Delay: 90_000_000})
		}),
		in(full, "await", "a task that waited learns what has woken it", asks, seeWoken),
		in(wide, "await", "without the feature a task that is to wait fails for good",
			"without the feature the finish is a permanent error of class unsupported: the task would not wait", func(s *session) error {
				return s.unsupported("await", `{"names": ["paid"], "result": "so far"}`)
			}),
		alone(full, "keep", "a checkpoint is stored when the host says so, and not before", keep, func(_ *exam, s *session) error { return s.keeps() }),
		onANode("await", "a node wakes a task that waits, by a signal or in the end", asks, seeNodeWake),
		onANode("flow", "a flow of steps goes on where it was when its process was killed", flow, seeFlow),
	}
}

// awaits runs a task, and compares the finish, which has the task wait, with want, apart from its result.
func (s *session) awaits(payload string, want *wire.Again) error {
	f, err := s.do(newRun("await", []byte(payload)))
	if err != nil {
		return err
	}
	a := f.GetAgain()
	delay, most := a.GetDelay(), want.GetDelay()
	if a.GetWait() == nil || !slices.Equal(a.GetWait().GetNames(), want.GetWait().GetNames()) || string(a.GetResult()) != "so far" ||
		a.GetAt() != 0 || string(a.GetCheckpoint()) != string(want.GetCheckpoint()) || delay > most || delay < most-int64(s.patience/time.Microsecond) {
		return fmt.Errorf("instead of {%.300v} came {%.300v}", want, f)
	}
	return nil
}

// awaited is the result of a task of the type await, or a part of that of flow.
type awaited struct {
	By   string
	ID   string
	Name string
	Data []byte
}

func seeWoken(s *session) error {
	id := task.ID{1, 0x4f, 15: 0xff}
	for _, c := range []struct {
		woken *wire.Woken
		want  awaited
	}{
		{&wire.Woken{By: wire.Woken_BY_TIMEOUT}, awaited{By: "timeout"}},
		{&wire.Woken{By: wire.Woken_BY_USER}, awaited{By: "user"}},
		{&wire.Woken{By: wire.Woken_BY_SIGNAL, Id: id[:], Name: "päid", At: 2e15, Data: []byte("\x00cash\xff")}, awaited{"signal", id.String(), "päid", []byte("\x00cash\xff")}},
		{&wire.Woken{By: wire.Woken_BY_SIGNAL, Id: id[:], Name: "paid", At: 2e15}, awaited{"signal", id.String(), "paid", nil}},
	} {
		run := newRun("await", []byte(`{"names": ["paid"]}`))
		run.Woken = c.woken
		f, err := s.do(run)
		if err != nil {
			return err
		}
		result, err := resultOf(f)
		if err != nil {
			return err
		}
		if err := c.want.is(result); err != nil {
			return err
		}
	}
	return nil
}

// is returns an error unless a result says the same as a.
func (a awaited) is(result []byte) error {
	var got awaited
	if err := json.Unmarshal(result, &got); err != nil {
		return fmt.Errorf("the result is %.300q: %w", result, err)
	}
	if got.By != a.By || got.ID != a.ID || got.Name != a.Name || string(got.Data) != string(a.Data) {
		return fmt.Errorf("the result is %.300q, wanted is %+v", result, a)
	}
	return nil
}

// keeps runs two tasks that keep a checkpoint, which the host stores late, or not at all.
func (s *session) keeps() error {
	s.mu.Lock()
	s.withhold = true
	s.mu.Unlock()
	for _, refusal := range []string{"", "the disk is full"} {
		run := newRun("keep", []byte("page 2"))
		if err := s.submit(run); err != nil {
			return err
		}
		var kept *wire.Checkpoint
		err := s.await("a checkpoint with a number", func() bool {
			for _, r := range s.reports {
				if r.run() == run.GetRunId() && r.checkpoint.GetNumber() != 0 {
					kept = r.checkpoint
				}
			}
			return kept != nil
		})
		if err != nil {
			return err
		}
		s.waitForUnexpected(unexpectedTime)
		if s.count(run) > 0 {
			return errors.New("the finish came before the host had stored the checkpoint")
		}
		if err := s.send(&wire.ToHandler{Stored: []*wire.Stored{{RunId: run.GetRunId(), Number: kept.GetNumber(), Error: refusal}}}); err != nil {
			return err
		}
		f, err := s.finish(run)
		if err != nil {
			return err
		}
		if refusal == "" {
			if string(f.GetResult()) != "stored" {
				return fmt.Errorf("instead of the result \"stored\" came {%.300v}", f)
			}
			continue
		}
		e, err := failureOf(f)
		if err != nil {
			return err
		}
		if err := retryable(e, refusal); err != nil {
			return err
		}
	}
	return nil
}

// seeNodeWake has tasks of a node wait.
func seeNodeWake(ctx context.Context, n realNode) error {
	for _, payload := range []string{`{"names": ["paid"]}`, `{"names": ["paid"], "timeout_ms": 1}`} {
		id, err := n.submit(ctx, "await", payload)
		if err != nil {
			return err
		}
		want := awaited{By: "timeout"}
		if payload == `{"names": ["paid"]}` {
			if want, err = n.signal(ctx, id, "paid"); err != nil {
				return err
			}
		}
		result, err := n.result(ctx, id)
		if err != nil {
			return err
		}
		if err := want.is(result); err != nil {
			return err
		}
	}
	return nil
}

func (n realNode) submit(ctx context.Context, typ, payload string) (task.ID, error) {
	receipts, err := n.Submit(ctx, engine.Request{Type: typ, Payload: []byte(payload)})
	if err != nil {
		return task.ID{}, err
	}
	return receipts[0].ID, nil
}

// signal waits until a task waits, sends it a signal, and returns what the task is to learn.
func (n realNode) signal(ctx context.Context, id task.ID, name string) (awaited, error) {
	sent := engine.Signal{ID: task.ID{7, 7, 7, 15: 7}, To: id, Name: name, Data: []byte("\x00cash\xff")}
	if err := n.awaitState(ctx, id, task.Waiting); err != nil {
		return awaited{}, err
	}
	outcome, _, err := n.Signal(ctx, sent)
	if err == nil && outcome != engine.SignalWoke {
		err = fmt.Errorf("the outcome of a signal to a task that waits is %v", outcome)
	}
	return awaited{"signal", sent.ID.String(), name, sent.Data}, err
}

// awaitState waits until a task is in a state. A task that is [task.Waiting] waits for a signal or for children then, and not for
// its next attempt, as one does that no worker has taken yet.
func (n realNode) awaitState(ctx context.Context, id task.ID, state task.State) error {
	for {
		t, err := n.Get(ctx, id)
		switch {
		case err != nil:
			return err
		case t.State == state && (state != task.Waiting || len(t.Awaits()) > 0):
			return nil
		case t.State == task.Error || t.State == task.Done:
			return fmt.Errorf("the task of a node is %v (%.300s), wanted is %v", t.State, t.LastError, state)
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("the task of a node is %v (%.300s), wanted is %v: %w", t.State, t.LastError, state, context.Cause(ctx))
		}
	}
}

// seeFlow kills the process of a flow that waits.
func seeFlow(ctx context.Context, n realNode) error {
	id, err := n.submit(ctx, "flow", "")
	if err != nil {
		return err
	}
	if err := n.awaitState(ctx, id, task.Waiting); err != nil {
		return err
	}
	t, err := n.Get(ctx, id)
	if err != nil {
		return err
	}
	if err := n.kill(); err != nil {
		return err
	}
	want, err := n.signal(ctx, id, "packed")
	if err != nil {
		return err
	}
	result, err := n.result(ctx, id)
	if err != nil {
		return err
	}
	var got struct{ Began, Ended string }
	if err := json.Unmarshal(result, &got); err != nil {
		return fmt.Errorf("the result is %.300q: %w", result, err)
	}
	var record struct {
		Steps   int
		Version int
		Done    []struct{ Kind, Name, Result string }
	}
	if err := json.Unmarshal(t.Checkpoint(), &record); err != nil {
		return fmt.Errorf("the checkpoint of a flow that waits is %.300q: %w", t.Checkpoint(), err)
	}
	if record.Steps != 1 || record.Version != 1 || len(record.Done) != 2 || record.Done[0].Name != "begin" || record.Done[0].Result != got.Began ||
		record.Done[1].Kind != "wait" || record.Done[1].Name != "packed" {
		return fmt.Errorf("the checkpoint of a flow that waits is %.300q", t.Checkpoint())
	}
	if got.Began == got.Ended || got.Began == "" || got.Ended == "" {
		return fmt.Errorf("the result is %.300q: the first step ran again, or the last did not run after that", result)
	}
	return want.is(result)
}
