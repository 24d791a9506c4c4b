package enginetest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

var submitScenarios = []scenario{
	{"a key submitted by many at once is one task that runs once", func(n *node) {
		n.start(types(100, nil, "mail"), map[string]handle{"mail": done})
		submitTwice(n, func() time.Time { return time.Time{} })
	}},
	{"a key submitted by many at once for later is one task that runs once", func(n *node) {
		n.start(types(100, nil, "mail"), map[string]handle{"mail": done})
		at := time.Now().Add(100 * time.Millisecond)
		submitTwice(n, func() time.Time { return at })
	}},
	{"eleven megabytes reach the handler and stay as they are", hugePayload},
	{"priorities are kept within their range and refused beyond it", func(n *node) {
		n.start(types(10, func(p *policy.Type) { p.Priority = 7 }, "mail"), map[string]handle{"mail": done})
		for _, p := range []uint8{task.HighestPriority, task.DefaultPriority, task.LowestPriority} {
			id := n.submit(engine.Request{Type: "mail", Priority: &p})[0]
			if t := n.expect(id, task.Done); t.Priority != p {
				n.Errorf("priority %d became %d", p, t.Priority)
			}
		}
		if t := n.expect(n.submit(engine.Request{Type: "mail"})[0], task.Done); t.Priority != 7 {
			n.Errorf("without a priority it has %d, not that of its type", t.Priority)
		}
		for _, p := range []uint8{task.LowestPriority + 1, 255} {
			good := task.HighestPriority
			_, err := n.Submit(n.ctx, engine.Request{Type: "mail", Priority: &good}, engine.Request{Type: "mail", Priority: &p})
			if !errors.Is(err, engine.ErrInvalid) {
				n.Errorf("priority %d: %v", p, err)
			}
		}
		if got := n.ledger.total(); got != 4 {
			n.Errorf("%d tasks ran, want those 4 that were accepted", got)
		}
	}},
	{"two thousand tasks due within a moment all run once and none too early", func(n *node) {
		n.start(types(50, nil, "later"), map[string]handle{"later": func(_ context.Context, t *task.Task) ([]byte, error) {
			if t.StartedAt.Before(t.ReadyAt) {
				n.Errorf("a task for %v was started at %v", t.ReadyAt, t.StartedAt)
			}
			return nil, nil
		}})
		begin := time.Now().Add(300 * time.Millisecond)
		n.ranOnce(n.submit(repeat(2000, func(int) engine.Request {
			return engine.Request{Type: "later", At: begin.Add(rand.N(200 * time.Millisecond))}
		})...)...)
	}},
	{"a task for a time that is past runs at once and once", func(n *node) {
		n.start(types(10, nil, "mail"), map[string]handle{"mail": done})
		ids := n.submit(repeat(100, func(i int) engine.Request {
			return engine.Request{Type: "mail", At: time.Now().Add(-time.Duration(i) * time.Hour)}
		})...)
		n.ranOnce(ids...)
	}},
	{"a task without a handler waits for one and delays no other task", func(n *node) {
		n.start(types(2, nil, "known"), map[string]handle{"known": done})
		unknown := n.submit(repeat(20, func(int) engine.Request { return engine.Request{Type: "unknown"} })...)
		n.ranOnce(n.submit(repeat(100, func(int) engine.Request { return engine.Request{Type: "known"} })...)...)
		t, reasons, err := n.Why(n.ctx, unknown[0])
		if err != nil || t.State != task.Submitted || t.Attempt != 0 || reasons[0].Code != engine.CodeNoHandler {
			n.Errorf("it is %v at attempt %d because %+v (%v)", t.State, t.Attempt, reasons, err)
		}
		n.close()
		n.reopenStore()
		n.start(types(2, nil, "known", "unknown"), map[string]handle{"known": done, "unknown": done})
		n.ranOnce(unknown...)
	}},
	{"a submit within a transaction is there if and only if that commits", transactions},
}

// submitTwice submits each of five hundred keys twice, by ten goroutines.
func submitTwice(n *node, at func() time.Time) {
	const keys, submitters = 500, 10
	var mu sync.Mutex
	ids, created := make(map[string]task.ID), 0
	var wg sync.WaitGroup
	for g := range submitters {
		wg.Go(func() {
			for i := range 2 * keys / submitters {
				key := fmt.Sprint((g*keys/submitters + i) % keys) // shared with the next goroutine
				receipts, err := n.Submit(n.ctx, engine.Request{Type: "mail", Key: key, At: at()})
				if err != nil {
					n.Errorf("submit: %v", err)
					return
				}
				mu.Lock()
				if id, ok := ids[key]; ok && id != receipts[0].ID {
					n.Errorf("key %s was given to %v and to %v", key, id, receipts[0].ID)
				}
				ids[key] = receipts[0].ID
				if receipts[0].Created {
					created++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if created != keys || len(ids) != keys {
		n.Errorf("%d tasks were created for %d of %d keys", created, len(ids), keys)
	}
	for _, id := range ids {
		n.ranOnce(id)
	}
	if got := n.ledger.total(); got != keys {
		n.Errorf("handlers were called %d times, want %d", got, keys)
	}
}

func hugePayload(n *node) {
	payload := make([]byte, 11<<20)
	rng := rand.NewChaCha8([32]byte{1})
	_, _ = rng.Read(payload) // never fails
	set := types(2, func(p *policy.Type) { p.MaxPayload = len(payload) }, "huge")
	n.start(set, map[string]handle{"huge": func(_ context.Context, t *task.Task) ([]byte, error) {
		sum := sha256.Sum256(t.Payload)
		return sum[:], nil
	}})
	sum := sha256.Sum256(payload)
	for i := range 2 { // the second is grabbed from the store, not with its submit
		r := engine.Request{Type: "huge", Payload: payload}
		if i == 1 {
			r.At = time.Now().Add(50 * time.Millisecond)
		}
		t := n.expect(n.submit(r)[0], task.Done)
		if !bytes.Equal(t.Result, sum[:]) || !bytes.Equal(t.Payload, payload) {
			n.Error("the payload is not what was submitted")
		}
	}
	_, err := n.Submit(n.ctx, engine.Request{Type: "huge", Payload: append(payload, 0)})
	if !errors.Is(err, engine.ErrInvalid) {
		n.Errorf("one byte more: %v", err)
	}
}

// transactions submits tasks in transactions, half of which fail, while other goroutines keep the
// writers busy.
func transactions(n *node) {
	n.start(types(20, nil, "tx", "load"), map[string]handle{"tx": done, "load": done})
	const goroutines, each = 4, 40
	var mu sync.Mutex
	var committed, failed, load []task.ID
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for i := range each {
				fails := (g+i)%2 == 0
				var ids []task.ID
				err := n.store.Update(n.ctx, func(tx storage.Tx) error {
					receipts, err := n.SubmitTx(n.ctx, tx, engine.Request{Type: "tx"}, engine.Request{Type: "tx", At: time.Now().Add(10 * time.Millisecond)})
					if err != nil {
						return err
					}
					ids = []task.ID{receipts[0].ID, receipts[1].ID}
					if fails {
						return errNo
					}
					return nil
				})
				if fails != errors.Is(err, errNo) || !fails && err != nil {
					n.Errorf("update: %v", err)
					return
				}
				mu.Lock()
				if fails {
					failed = append(failed, ids...)
				} else {
					committed = append(committed, ids...)
				}
				mu.Unlock()
			}
		})
		wg.Go(func() {
			for range each {
				receipts, err := n.Submit(n.ctx, engine.Request{Type: "load"})
				if err != nil {
					n.Errorf("submit: %v", err)
					return
				}
				mu.Lock()
				load = append(load, receipts[0].ID)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	n.ranOnce(committed...)
	n.ranOnce(load...)
	for _, id := range failed {
		if _, err := n.store.Get(n.ctx, id); !errors.Is(err, task.ErrNotFound) || n.ledger.runs(id) > 0 {
			n.Errorf("a task of a failed transaction is there (%v) and was run %d times", err, n.ledger.runs(id))
		}
	}
	if want := goroutines * each; len(committed) != want || len(failed) != want {
		n.Errorf("%d tasks were committed and %d were not, want %d each", len(committed), len(failed), want)
	}
}
