package life

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// somebody returns a random open node, nil if there is none.
func (w *world) anyNode() *node {
	w.mu.Lock()
	defer w.mu.Unlock()
	for range 4 {
		if len(w.nodes) == 0 {
			break
		}
		if n := w.nodes[w.rng.IntN(len(w.nodes))]; n.e.Load() != nil {
			return n
		}
	}
	return nil
}

// request draws a request.
func (w *world) request() engine.Request {
	w.requests++
	typ := w.plan.types[w.roll(len(w.plan.types))]
	if w.plan.strangers > 0 && w.roll(4) == 0 {
		typ = fmt.Sprintf("stranger %d", w.roll(w.plan.strangers))
	}
	number := fmt.Sprint(w.requests)
	r := engine.Request{
		Type: typ, Payload: []byte("payload of " + number),
		Headers: map[string]string{"request": number, "tenant": fmt.Sprint(w.roll(w.plan.tenants))},
	}
	if w.roll(4) == 0 {
		r.Priority = new(uint8(w.roll(3)))
	}
	switch w.roll(6) {
	case 0:
		r.At = time.Now().Add(w.span(0, 3*time.Second))
	case 1:
		r.ExpiresAt = time.Now().Add(w.span(500*time.Millisecond, 6*time.Second))
	}
	switch w.roll(5) {
	case 0:
		r.Key = fmt.Sprint("key ", w.roll(12))
	case 1, 2:
		r.ID = w.ids.Next(time.Now())
	}
	if _, known := w.plan.set.Types[typ]; known && w.roll(5) == 0 && (r.ID.IsZero() && r.Key == "" || !w.plan.divided) {
		r.OrderingKey = fmt.Sprint("order ", w.roll(4))
		if w.roll(4) == 0 { // it is late, and has a seat before others
			r.At = time.Now().Add(-w.span(0, 3*time.Second))
		}
	}
	if w.plan.typeOf(typ).Retention.Done == 0 { // its id would be free again, and the version be handled again
		r.ID = task.ID{}
	}
	if !r.ID.IsZero() && w.plan.divided {
		r.Key, r.OrderingKey = "", ""
	}
	return r
}

// crowd submits tasks that cannot run, in more queues than fit into memory.
func (w *world) crowd() {
	paused := w.plan.types[0]
	if n := w.opened(); n != nil && n.e.Load().Pause(context.Background(), paused) == nil {
		w.mu.Lock()
		w.unpaused[paused]++
		w.mu.Unlock()
	}
	var reqs []engine.Request
	for i := range 2 * w.plan.lookAhead {
		r := w.request()
		if r.Type = paused; w.roll(2) == 0 {
			r.Type, r.OrderingKey = fmt.Sprintf("stranger %d", i%w.plan.strangers), ""
		}
		reqs = append(reqs, r)
	}
	w.ask(reqs)
}

// submit submits some tasks for a caller.
func (w *world) submit() {
	reqs := make([]engine.Request, 1+w.roll(8)/6*w.roll(4))
	for i := range reqs {
		reqs[i] = w.request()
	}
	w.ask(reqs)
}

// ask submits requests, repeatedly if they can be repeated.
func (w *world) ask(reqs []engine.Request) {
	repeatable := !slices.ContainsFunc(reqs, func(r engine.Request) bool { return r.ID.IsZero() && r.Key == "" })
	inTx := w.roll(8) == 0 && !w.plan.divided
	patience := 10 * time.Second
	if w.roll(4) == 0 {
		patience = w.span(20*time.Millisecond, 2*time.Second)
	}
	w.callers.Go(func() {
		for !w.isOver() {
			n := w.anyNode()
			if n == nil {
				time.Sleep(100 * time.Millisecond)
				continue
			}
			receipts, err := n.submit(patience, inTx, reqs)
			if err == nil {
				w.accept(n, reqs, receipts)
				if w.roll(3) == 0 {
					w.await(n, receipts)
				}
				return
			}
			if errors.Is(err, engine.ErrInvalid) {
				w.fail("a request is refused: %v", err)
				return
			}
			if !repeatable {
				return
			}
			time.Sleep(w.span(0, 300*time.Millisecond))
		}
		w.fail("a caller never learned that its request was accepted: %+v", reqs)
	})
}

func (n *node) submit(patience time.Duration, inTx bool, reqs []engine.Request) (receipts []engine.Receipt, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	e := n.e.Load()
	if !inTx {
		return e.Submit(ctx, reqs...)
	}
	err = n.link.Update(ctx, func(tx storage.Tx) error {
		receipts, err = e.SubmitTx(ctx, tx, reqs...)
		return err
	})
	return receipts, err
}

// accept records the tasks that a caller got a receipt for.
func (w *world) accept(n *node, reqs []engine.Request, receipts []engine.Receipt) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n.isDead() {
		return // the word never left the node; the rows are in the store all the same
	}
	for i, rc := range receipts {
		s, r := w.stories[rc.ID], &reqs[i]
		if s == nil {
			w.fail("a caller heard of task %v, which is not in the store", rc.ID)
			continue
		}
		s.accepted = true
		s.remark(fmt.Sprintf("is accepted, created %t", rc.Created), n.name)
		if rc.Created {
			s.created++
		}
		switch {
		case s.created > 1:
			w.failAt(s, "two callers heard that they have added it")
		case r.ID != rc.ID && !r.ID.IsZero() && (r.Key == "" || s.row.Key != r.Key):
			w.failAt(s, "a caller who gave the id %v heard of it", r.ID)
		case r.Key != "" && (s.row.Key != r.Key || s.row.Type != r.Type) && r.ID != rc.ID:
			w.failAt(s, "a caller who gave the key %q heard of it, and it has %q", r.Key, s.row.Key)
		}
	}
}

// await waits for the tasks of a caller to end.
func (w *world) await(n *node, receipts []engine.Receipt) {
	w.waiters.Go(func() {
		for _, rc := range receipts {
			w.mu.Lock()
			w.awaited[rc.ID]++
			w.mu.Unlock()
			err := n.e.Load().WaitTasks(context.Background(), rc.ID)
			w.mu.Lock()
			w.awaited[rc.ID]--
			w.mu.Unlock()
			if err != nil {
				return // the node is closed
			}
			w.mu.Lock()
			if s := w.stories[rc.ID]; s.live() && !s.revived(0) {
				w.failAt(s, "a caller who waited for it heard that it had ended")
			}
			w.mu.Unlock()
		}
	})
}

// addBySQL adds a task without a hint to any node.
func (w *world) addBySQL() {
	r := w.request()
	if r.ID.IsZero() {
		r.ID = w.ids.Next(time.Now())
		if shard, bound := task.BoundShard(r.Type, r.Key, r.OrderingKey); bound {
			r.ID = w.ids.NextIn(time.Now(), shard)
		}
	}
	typ := w.plan.typeOf(r.Type)
	t := &task.Task{
		ID: r.ID, Type: r.Type, Key: r.Key, OrderingKey: r.OrderingKey, Priority: typ.Priority, ReadyAt: r.At,
		ExpiresAt: r.ExpiresAt, Headers: r.Headers, Payload: r.Payload, Shard: r.ID.Shard(),
	}
	if r.OrderingKey != "" {
		t.Shard = task.ShardOf(r.OrderingKey)
	}
	now := time.Now()
	if keyed := w.plan.set.Keyed(typ); len(keyed) > 0 {
		t.Group = task.GroupOf(r.Headers["tenant"])
	}
	if total := typ.Timeout.Total; total > 0 && (t.ExpiresAt.IsZero() || now.Add(total).Before(t.ExpiresAt)) {
		t.ExpiresAt = now.Add(total)
	}
	switch queue := typ.Timeout.Queue; {
	case r.At.After(now):
		t.Create(task.Waiting, now, r.At)
	case queue > 0:
		t.Create(task.Submitted, now, now.Add(queue))
	default:
		t.Create(task.Submitted, now, time.Time{})
	}
	b := &storage.Batch{Insert: []*task.Task{t}}
	switch at := w.homes.get(t.ID.Shard()); {
	case !w.plan.divided:
		w.insert(t)
	case at != databases:
		_, _ = w.doIn(nil, at, b, func() bool { return true })
	}
}

// meddle changes a task like a person does.
func (w *world) meddle() {
	w.mu.Lock()
	if len(w.order) == 0 {
		w.mu.Unlock()
		return
	}
	s := w.stories[w.order[w.rng.IntN(len(w.order))]]
	ref := task.Ref{ID: s.id}
	if w.rng.IntN(3) == 0 {
		ref.Version = s.row.Version
	}
	verb := w.rng.IntN(6)
	if verb < 3 {
		s.cancels++
	} else {
		s.resumes++
	}
	s.remark(fmt.Sprintf("a person wants to %s it", [...]string{"cancel", "cancel", "fail", "resume", "resume", "reschedule"}[verb]), "")
	w.mu.Unlock()
	n := w.anyNode()
	if n == nil {
		return
	}
	at := time.Now().Add(w.span(-time.Second, 2*time.Second))
	w.callers.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		e := n.e.Load()
		switch verb {
		case 0, 1:
			_, _ = e.Cancel(ctx, ref, "not wanted")
		case 2:
			_, _ = e.Fail(ctx, ref, "given up")
		case 3, 4:
			_, _ = e.Resume(ctx, ref)
		case 5:
			_, _ = e.Reschedule(ctx, ref, at)
		}
	})
}

// pause pauses or resumes a type like a person does.
func (w *world) pause() {
	n, typ := w.anyNode(), w.plan.types[w.roll(len(w.plan.types))]
	if n == nil {
		return
	}
	on := w.roll(2) == 0
	w.mu.Lock()
	if !on { // from now on it may go on everywhere
		for _, of := range w.nodes {
			delete(of.paused, typ)
		}
	}
	w.unpaused[typ]++
	times := w.unpaused[typ]
	w.mu.Unlock()
	w.callers.Go(func() {
		if !on {
			_ = n.e.Load().Unpause(context.Background(), typ)
			return
		}
		if err := n.e.Load().Pause(context.Background(), typ); err != nil {
			return
		}
		w.mu.Lock()
		if w.unpaused[typ] == times {
			n.paused[typ] = pauses{since: time.Now(), still: true}
			w.say(n, "type "+typ+" is paused")
		}
		w.mu.Unlock()
	})
}
