package enginetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

var uniqueScenarios = []scenario{
	{"of many requests of a key at once that replace each other, one that was said to count runs, once", func(n *node) {
		replaceAtOnce(n, policy.ReplaceExisting)
	}},
	{"of many requests of a key at once that debounce, one that was said to count runs, once", func(n *node) {
		replaceAtOnce(n, policy.DebounceExisting)
	}},
	{"a key that very many requests debounce at once fails none of them", hotKey},
	{"a key is remembered of a task that is not kept", rememberKeys},
	{"of many requests of a key at once, one adds a task in a window", throttleAtOnce},
	{"requests of taken keys, and late ones, do what loops did that read, decided and wrote", likeLoops},
}

// throttleAtOnce submits each key many times at once, alone and in transactions, again and again in several windows.
func throttleAtOnce(n *node) {
	const keys, rounds, submitters, window = 8, 4, 6, 250 * time.Millisecond
	ran := make(map[task.ID]int)
	var mu sync.Mutex
	n.start(types(4, func(p *policy.Type) { p.Unique.OnConflict, p.Unique.Window = policy.ThrottleNew, window }, "mail"), map[string]handle{"mail": func(_ context.Context, t *task.Task) ([]byte, error) {
		mu.Lock()
		defer mu.Unlock()
		ran[t.ID]++
		return t.Payload, nil
	}})
	created, most := make(map[task.ID]bool), 0
	for round := range rounds {
		began := time.Now()
		var wg sync.WaitGroup
		for i := range keys * submitters {
			wg.Go(func() {
				r := engine.Request{Type: "mail", Key: fmt.Sprint("key ", i%keys), Payload: fmt.Append(nil, round)}
				if i%2 == 0 {
					r.OrderingKey = "order of " + r.Key
				}
				receipts, err := submitOrIn(n, i%4 < 2, r)
				if err != nil {
					n.Errorf("submit: %v", err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				if receipts[0].Created {
					created[receipts[0].ID] = true
				}
			})
		}
		wg.Wait()
		if err := n.WaitType(n.ctx, "mail"); err != nil {
			n.Errorf("wait: %v", err)
		}
		most += keys * int(2+time.Since(began)/window) // a slow round may be longer than a window
		if len(created) < keys*(round+1) || len(created) > most {
			n.Errorf("round %d: %d tasks were added, of %d keys", round, len(created), keys)
		}
		time.Sleep(2 * window) // longer than the window, also by a clock that is a little off
	}
	holders := make(map[string]int)
	for id := range created {
		if ran[id] != 1 {
			n.Errorf("task %v ran %d times", id, ran[id])
		}
		if is := n.expect(id, task.Done); is.Key != "" {
			holders[is.Key]++
		}
		delete(ran, id)
	}
	if len(ran) > 0 || len(holders) != keys {
		n.Errorf("%d tasks ran that nothing has added, and %d keys are taken", len(ran), len(holders))
	}
	for key, tasks := range holders {
		if tasks != 1 {
			n.Errorf("%d tasks have %s", tasks, key)
		}
	}
}

// rememberKeys submits each key several times, while its task runs and when it is done, alone and in transactions.
func rememberKeys(n *node) {
	const keys, rounds = 40, 3
	n.start(types(4, func(p *policy.Type) { p.Retention.Done, p.Unique.Remember = 0, time.Hour }, "mail"), map[string]handle{"mail": func(context.Context, *task.Task) ([]byte, error) {
		return []byte("result"), nil
	}})
	ids := make(map[string]task.ID)
	for round := range rounds {
		for i := range keys {
			r := engine.Request{Type: "mail", Key: fmt.Sprint("key ", i), Payload: []byte("payload"), Headers: map[string]string{"h": "v"}}
			if i%2 == 0 {
				r.OrderingKey = "order of " + r.Key
			}
			receipts, err := submitOrIn(n, i%4 < 2, r)
			if err != nil {
				n.Errorf("submit: %v", err)
				return
			}
			if got := receipts[0]; got.Created != (round == 0) || round > 0 && got.ID != ids[r.Key] {
				n.Errorf("round %d: %s is answered with %+v, and its task is %v", round, r.Key, got, ids[r.Key])
			}
			ids[r.Key] = receipts[0].ID
		}
		if round == 0 {
			continue // at once
		}
		for key, id := range ids {
			if got := n.expect(id, task.Done); got.Key != key || !got.Tombstone || got.Attempt != 1 || len(got.Payload)+len(got.Result)+len(got.Headers) > 0 {
				n.Errorf("the task of %s is %+v", key, got)
			}
		}
	}
	plain := n.submit(engine.Request{Type: "mail", Payload: []byte("payload")})[0]
	n.eventually("a task without a key is gone", func() bool {
		_, err := n.Get(n.ctx, plain)
		return errors.Is(err, task.ErrNotFound)
	})
}

// replaceAtOnce submits requests of few keys by many goroutines, alone and in transactions, while their tasks run.
func replaceAtOnce(n *node, mode policy.OnConflict) {
	const keys, submitters, each = 12, 8, 60
	var mu sync.Mutex
	ran := make(map[task.ID]string)
	n.start(types(4, func(p *policy.Type) { p.Unique.OnConflict = mode }, "mail"), map[string]handle{"mail": func(_ context.Context, t *task.Task) ([]byte, error) {
		mu.Lock()
		defer mu.Unlock()
		ran[t.ID] = string(t.Payload)
		return nil, nil
	}})
	created, counted := make(map[task.ID]bool), make(map[task.ID][]string)
	var wg sync.WaitGroup
	for g := range submitters {
		wg.Go(func() {
			for i := range each {
				r := engine.Request{
					Type: "mail", Key: fmt.Sprint((g + i) % keys), Payload: fmt.Append(nil, g, "-", i), At: time.Now().Add(time.Duration(i%3) * 20 * time.Millisecond),
				}
				if i%4 == 0 {
					r.OrderingKey = "order of " + r.Key
					r.Key += " in order"
				}
				receipts, err := submitOrIn(n, g%4 == 0, r)
				if err != nil {
					n.Errorf("submit: %v", err)
					return
				}
				mu.Lock()
				if o := receipts[0].Outcome; o == engine.OutcomeCreated || o == engine.OutcomeReplaced {
					created[receipts[0].ID] = created[receipts[0].ID] || o == engine.OutcomeCreated
					counted[receipts[0].ID] = append(counted[receipts[0].ID], string(r.Payload))
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(counted) != 2*keys {
		n.Errorf("there are %d tasks, want one for each of %d keys", len(counted), 2*keys)
	}
	n.ranOnce(slices.Collect(maps.Keys(counted))...)
	for id, payloads := range counted {
		if !created[id] || !slices.Contains(payloads, ran[id]) {
			n.Errorf("task %v ran with %q, of %q; it was created: %t", id, ran[id], payloads, created[id])
		}
	}
}

func hotKey(n *node) {
	const submitters, each = 48, 12
	var mu sync.Mutex
	counted := make(map[string]bool)
	n.start(types(4, func(p *policy.Type) { p.Unique.OnConflict = policy.DebounceExisting }, "mail"), map[string]handle{"mail": func(_ context.Context, t *task.Task) ([]byte, error) {
		return t.Payload, nil
	}})
	id := n.submit(engine.Request{Type: "mail", Key: "hot", At: time.Now().Add(time.Hour)})[0]
	submit := func(payload string, at time.Time) {
		receipts, err := n.Submit(n.ctx, engine.Request{Type: "mail", Key: "hot", Payload: []byte(payload), At: at})
		if err != nil || receipts[0] != (engine.Receipt{ID: id, Outcome: engine.OutcomeReplaced}) {
			n.Errorf("got %+v, %v", receipts, err)
		}
		mu.Lock()
		counted[payload] = true
		mu.Unlock()
	}
	var wg sync.WaitGroup
	for g := range submitters {
		wg.Go(func() {
			for i := range each {
				submit(fmt.Sprint(g, "-", i), time.Now().Add(time.Hour))
			}
		})
	}
	wg.Wait()
	if got := n.get(id); !counted[string(got.Payload)] || got.State != task.Waiting {
		n.Errorf("it is %v with %q", got.State, got.Payload)
	}
	submit("last", time.Time{})
	if got := n.expect(id, task.Done); string(got.Result) != "last" {
		n.Errorf("it ran with %q", got.Result)
	}
}

// submitOrIn submits a request, in a transaction if inTx is set.
func submitOrIn(n *node, inTx bool, r engine.Request) (receipts []engine.Receipt, err error) {
	if !inTx {
		return n.Submit(n.ctx, r)
	}
	err = n.store.Update(n.ctx, func(tx storage.Tx) (err error) {
		receipts, err = n.SubmitTx(n.ctx, tx, r)
		return err
	})
	return receipts, err
}
