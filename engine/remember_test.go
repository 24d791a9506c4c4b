package engine_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// remembering returns a set with the type x. Its tasks are kept for this long, and their keys for three hours.
func remembering(keep time.Duration, mode policy.OnConflict) policy.Set {
	return unique(mode, func(p *policy.Type) {
		p.Unique.Remember, p.Retention = 3*time.Hour, policy.Retention{Done: keep, Failed: keep, Cancelled: keep}
	})
}

var keeps = []time.Duration{0, time.Minute, time.Hour, 2 * time.Hour}

// fullOf returns a request with all that a tombstone does not keep.
func fullOf(key string) engine.Request {
	return engine.Request{Type: "x", Key: key, Payload: []byte("payload"), Headers: map[string]string{"h": "v"}}
}

func TestAKeyIsTakenForAsLongAsItsTypeRemembersIt(t *testing.T) {
	for _, keep := range keeps {
		for _, mode := range []policy.OnConflict{policy.KeepExisting, policy.ReplaceExisting, policy.RejectNew} {
			t.Run(fmt.Sprint(keep, " ", mode), func(t *testing.T) { inBubble(t, func(t *testing.T) { rememberKey(t, keep, mode) }) })
		}
	}
}

func rememberKey(t *testing.T, keep time.Duration, mode policy.OnConflict) {
	fails := true
	n := start(t, remembering(keep, mode), handle("x", func(context.Context, *task.Task) ([]byte, error) {
		if fails = !fails; !fails {
			return nil, errNo
		}
		return []byte("result"), nil
	}))
	id := n.submit(fullOf("k"))
	if err := n.WaitTasks(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	ended := n.get(id).UpdatedAt
	again := func() (engine.Receipt, error) {
		receipts, err := n.Submit(t.Context(), fullOf("k"))
		return receipts[0], err
	}
	for at := time.Minute; at < 3*time.Hour; at += 13 * time.Minute {
		time.Sleep(time.Until(ended.Add(at)))
		receipt, err := again()
		if receipt.ID != id || receipt.Created || (mode == policy.RejectNew) != errors.Is(err, engine.ErrExists) || mode != policy.RejectNew && receipt.Outcome != engine.OutcomeAlreadyDone {
			t.Fatalf("after %v: %+v, %v", at, receipt, err)
		}
		is := n.expect(id, task.Done)
		if kept := len(is.Payload) > 0; kept != (at < keep) && at > 2*keep { // the cleaner may be late
			t.Errorf("after %v its payload is there: %t", at, kept)
		}
		if len(is.Payload) == 0 && (len(is.Result)+len(is.Headers)+len(is.History) > 0 || !is.UpdatedAt.Equal(ended) || !is.NextEventAt.Equal(ended.Add(3*time.Hour))) {
			t.Errorf("after %v there is left %+v", at, is)
		}
	}
	time.Sleep(time.Until(ended.Add(7 * time.Hour)))
	if receipt, err := again(); err != nil || !receipt.Created {
		t.Errorf("after the time for which it is remembered: %+v, %v", receipt, err)
	}
}

func TestOnlyKeysOfTasksThatAreDoneAreRemembered(t *testing.T) {
	for _, keep := range keeps {
		inBubble(t, func(t *testing.T) {
			n := start(t, remembering(keep, policy.KeepExisting), handle("x", func(context.Context, *task.Task) ([]byte, error) { return nil, nil }))
			later := fullOf("cancelled")
			later.At = time.Now().Add(time.Hour)
			ids := []task.ID{n.submit(engine.Request{Type: "x"}), n.submit(later)}
			if _, err := n.Cancel(t.Context(), task.Ref{ID: ids[1]}, ""); err != nil {
				t.Fatal(err)
			}
			time.Sleep(5 * time.Hour)
			for i, id := range ids {
				if _, err := n.Get(t.Context(), id); !errors.Is(err, task.ErrNotFound) {
					t.Errorf("%v: task %d is there: %v", keep, i, err)
				}
			}
			if receipts, err := n.Submit(t.Context(), later); err != nil || !receipts[0].Created {
				t.Errorf("%v: the key of a cancelled task: %+v, %v", keep, receipts, err)
			}
		})
	}
}

func TestATaskThatATransactionFinishesIsRemembered(t *testing.T) {
	for _, keep := range keeps {
		inBubble(t, func(t *testing.T) {
			var n *node
			n = start(t, remembering(keep, policy.ReplaceExisting), handle("x", func(ctx context.Context, _ *task.Task) ([]byte, error) {
				return nil, n.store.Update(ctx, func(tx storage.Tx) error { return engine.FinishTx(ctx, tx, []byte("result")) })
			}))
			for _, key := range []string{"k", ""} {
				id := n.submit(fullOf(key))
				time.Sleep(2*time.Hour + time.Minute)
				got, err := n.Get(t.Context(), id)
				if key == "" {
					if keep < 2*time.Hour && !errors.Is(err, task.ErrNotFound) {
						t.Errorf("%v: without a key it is there: %v", keep, err)
					}
					continue
				}
				if err != nil || got.State != task.Done || key != "" && keep < time.Hour && len(got.Payload)+len(got.Result) > 0 {
					t.Errorf("%v: it is %+v, %v", keep, got, err)
				}
			}
		})
	}
}

// A change of remember holds for rows that are removed from then on.
func TestHowLongKeysAreRememberedMayBeChangedAtARestart(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		do := handle("x", func(context.Context, *task.Task) ([]byte, error) { return nil, nil })
		n := start(t, unique(policy.ReplaceExisting, func(p *policy.Type) { p.Retention.Done = time.Hour }), do)
		id := n.submit(fullOf("k"))
		ended := n.end(id).UpdatedAt
		for _, remember := range []time.Duration{3 * time.Hour, 9 * time.Hour} {
			n.close()
			n.config.Policies = unique(policy.ReplaceExisting, func(p *policy.Type) { p.Retention.Done, p.Unique.Remember = time.Hour, remember })
			n.open()
			time.Sleep(time.Until(ended.Add(remember - time.Minute)))
			if receipts, err := n.Submit(t.Context(), fullOf("k")); err != nil || receipts[0].ID != id {
				t.Errorf("%v: %+v, %v", remember, receipts, err)
			}
		}
	})
}
