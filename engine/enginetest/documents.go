package enginetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/storagetest"
	"github.com/taskengine/taskengine/task"
)

var documentScenarios = []scenario{
	{"the end of an attempt writes documents, and an attempt that does not end so writes none", writesDocuments},
	{"the transaction that ends an attempt writes documents if and only if it commits", documentsByTx},
	{"an invalid document fails the attempt for good, and nothing of it is written", invalidDocuments},
	{"tasks that count in a document lose no count", func(n *node) { countsInDocuments(n, nil) }},
	{"tasks that count in a document lose no count, though the store fails now and then", func(n *node) {
		countsInDocuments(n, newWeather(4, func(call storagetest.Call, fault error) storagetest.Fault {
			if call == storagetest.Update {
				return storagetest.Fault{Before: fault}
			}
			return storagetest.Fault{}
		}))
	}},
	{"tasks that count in a document count once, though the store does not say whether it failed", func(n *node) {
		countsInDocuments(n, newWeather(4, unsaid))
	}},
	{"a conflict leaves a task in error whose type is at most once", conflictAtMostOnce},
	{"documents are listed by their prefix, deleted, and outlive a restart", listsDocuments},
}

// near returns a request for a task that is in the shard of a document.
func near(typ, key, payload string) engine.Request {
	return engine.Request{ID: documentIDs.NextIn(time.Now(), task.DocumentShard(key)), Type: typ, Payload: []byte(payload)}
}

var documentIDs = task.NewIDs([32]byte{0xd0, 1})

// document returns the data and the version of a document, "" and 0 if there is none.
func (n *node) document(ctx context.Context, key string) (data string, version uint64) {
	n.Helper()
	d, err := n.opened().Document(ctx, key)
	switch {
	case errors.Is(err, task.ErrNotFound):
		return "", 0
	case err != nil:
		n.Fatalf("read the document %s: %v", key, err)
	}
	return string(d.Data), d.Version
}

func writesDocuments(n *node) {
	const key = "customer/17"
	began, gate := make(chan struct{}), make(chan struct{})
	n.start(types(10, untilDone, "mail"), map[string]handle{"mail": func(ctx context.Context, t *task.Task) ([]byte, error) {
		writes := task.WithDocuments(
			task.DocumentWrite{Key: key, Data: t.Payload}, task.DocumentWrite{Key: "{customer/17}/" + string(t.Payload), Data: []byte("x")})
		switch string(t.Payload) {
		case "done":
			return []byte("r"), task.Again(time.Time{}, writes)
		case "again":
			return []byte("r"), task.Again(time.Now().Add(time.Hour), writes, task.WithCheckpoint([]byte("c")))
		case "waits":
			return []byte("r"), task.WaitFor([]string{"paid"}, time.Now().Add(time.Hour), writes)
		case "adds":
			return []byte("r"), task.Again(time.Time{}, writes, task.WithChildren("c", engine.Request{Type: "mail", Payload: []byte("child")}))
		case "gated":
			close(began)
			<-gate
			return nil, task.Again(time.Time{}, writes)
		}
		return nil, nil
	}})
	was := uint64(0)
	for payload, state := range map[string]task.State{"done": task.Done, "again": task.Waiting, "waits": task.Waiting, "adds": task.Done} {
		id := n.submit(near("mail", key, payload))[0]
		n.eventually("the attempt has ended", func() bool { return n.get(id).State == state && string(n.get(id).Result) == "r" })
		data, version := n.document(n.ctx, key)
		if other, _ := n.document(n.ctx, "{customer/17}/"+payload); data != payload || other != "x" || version <= was {
			n.Errorf("after %s the documents are %q with version %d after %d, and %q", payload, data, version, was, other)
		}
		was = version
	}
	cancelled := n.submit(near("mail", key, "gated"))[0]
	receive(n, "it has begun", began)
	if _, err := n.Cancel(n.ctx, n.get(cancelled).Ref(), ""); err != nil {
		n.Error(err)
	}
	close(gate)
	n.wait(cancelled)
	n.eventually("its handler has returned", func() bool { return n.Stats().Running == 0 })
	if data, version := n.document(n.ctx, key); data == "gated" || version != was {
		n.Errorf("a cancelled attempt has written %q with version %d", data, version)
	}
}

func documentsByTx(n *node) {
	const key = "tx"
	n.start(types(10, untilDone, "mail"), map[string]handle{"mail": func(ctx context.Context, t *task.Task) ([]byte, error) {
		_, version := n.document(ctx, key)
		write := task.DocumentWrite{Key: key, Data: t.Payload, Replaces: &version}
		switch string(t.Payload) {
		case "rolled back":
			if err := n.store.Update(ctx, func(tx storage.Tx) error {
				if err := n.opened().WriteDocumentsTx(ctx, tx, write); err != nil {
					return err
				}
				return errNo
			}); !errors.Is(err, errNo) {
				n.Errorf("the transaction fails with %v", err)
			}
			return nil, nil
		case "conflict":
			if t.Notes == nil && len(t.History) == 0 {
				version++
			}
		}
		return nil, n.store.Update(ctx, func(tx storage.Tx) error {
			if string(t.Payload) == "again" {
				return engine.AgainTx(ctx, tx, nil, time.Now().Add(time.Hour), task.WithDocuments(write))
			}
			if err := n.opened().WriteDocumentsTx(ctx, tx, write); err != nil {
				return err
			}
			return engine.FinishTx(ctx, tx, nil)
		})
	}})
	for _, c := range []struct {
		payload, data string
		state         task.State
	}{{"done", "done", task.Done}, {"again", "again", task.Waiting}, {"rolled back", "again", task.Done}, {"conflict", "conflict", task.Done}} {
		id := n.submit(near("mail", key, c.payload))[0]
		n.eventually("the attempt has ended", func() bool { return n.get(id).State == c.state && n.Stats().Running == 0 })
		if data, _ := n.document(n.ctx, key); data != c.data {
			n.Errorf("after %s the document is %q", c.payload, data)
		}
		t := n.get(id)
		if isConflict := len(t.History) == 1 && t.History[0].Outcome == task.Snoozed; isConflict != (c.payload == "conflict") || t.Attempt > 1 {
			n.Errorf("%s: attempt %d, history %+v", c.payload, t.Attempt, t.History)
		}
	}
}

func invalidDocuments(n *node) {
	const key = "bad"
	bad := map[string]task.DocumentWrite{
		"missing": {}, "bytes, of 500 allowed": {Key: strings.Repeat("k", 501)}, "cannot be printed": {Key: "a\n"},
		"of 262144 allowed": {Key: key, Data: make([]byte, task.MaxDocument+1)}, "has data or a time": {Key: key, Data: []byte("x"), Delete: true},
		"is there twice": {Key: "{bad}/good"}, "between the years": {Key: key, ExpiresAt: time.Date(12000, 1, 1, 0, 0, 0, 0, time.UTC)},
	}
	n.start(types(10, untilDone, "mail"), map[string]handle{"mail": func(_ context.Context, t *task.Task) ([]byte, error) {
		return nil, task.Again(time.Time{}, task.WithDocuments(task.DocumentWrite{Key: "{bad}/good", Data: []byte("x")}, bad[string(t.Payload)]))
	}})
	for want := range bad {
		id := n.submit(near("mail", key, want))[0]
		n.wait(id)
		if got := n.expect(id, task.Error); got.Attempt != 1 || !strings.Contains(got.LastError, want) {
			n.Errorf("after %d attempts the error is %q, want %q", got.Attempt, got.LastError, want)
		}
		if err := n.WriteDocuments(n.ctx, task.DocumentWrite{Key: "{bad}/good"}, bad[want]); !errors.Is(err, engine.ErrInvalid) {
			n.Errorf("%s: to write it returns %v", want, err)
		}
	}
	if data, version := n.document(n.ctx, "{bad}/good"); version != 0 {
		n.Errorf("the document %q was written", data)
	}
	if _, err := n.Document(n.ctx, ""); !errors.Is(err, engine.ErrInvalid) {
		n.Errorf("a document without a key: %v", err)
	}
}

// countsInDocuments has tasks add 1 to the numbers in two documents, which they read before.
func countsInDocuments(n *node, w *weather) {
	const count = 40
	keys := []string{"{count}/a", "{count}/b"}
	if w != nil {
		n.config.Store = storagetest.Faulty(n.store, w.decide)
	}
	n.start(types(8, untilDone, "mail"), map[string]handle{"mail": func(ctx context.Context, t *task.Task) ([]byte, error) {
		var writes []task.DocumentWrite
		for _, key := range keys {
			d, err := task.ReadDocument(ctx, key)
			if err != nil {
				return nil, err
			}
			number := 0
			if d.Version > 0 {
				if number, err = strconv.Atoi(string(d.Data)); err != nil {
					return nil, task.Permanent(err)
				}
			}
			writes = append(writes, d.Write([]byte(strconv.Itoa(number+1))))
		}
		if t.Payload[0]%2 == 0 {
			slices.Reverse(writes)
		}
		if t.Payload[0]%3 == 0 && t.Checkpoint() == nil {
			return nil, task.Again(time.Now(), task.WithDocuments(writes...), task.WithCheckpoint([]byte("once")))
		}
		return nil, task.Again(time.Time{}, task.WithDocuments(writes...))
	}})
	ids := n.submit(repeat(count, func(i int) engine.Request { return near("mail", keys[0], fmt.Sprintf("%c", rune('0'+i))) })...)
	if w != nil {
		w.quiet.Store(false)
	}
	want := 0
	for i := range count {
		if want++; ('0'+i)%3 == 0 {
			want++
		}
	}
	if err := n.WaitTasks(n.ctx, ids...); err != nil && w == nil {
		n.Fatal(err)
	}
	if w != nil {
		w.clear()
		if n.wait(ids...); w.faults() == 0 {
			n.Error("no call failed")
		}
	}
	for _, id := range ids {
		if t := n.expect(id, task.Done); t.Attempt > 1 && w == nil {
			n.Errorf("an end that was not written counts: %d attempts, history %+v", t.Attempt, t.History)
		}
	}
	for _, key := range keys {
		if data, _ := n.document(n.ctx, key); data != strconv.Itoa(want) {
			n.Errorf("the document %s is %s, want %d", key, data, want)
		}
	}
}

func conflictAtMostOnce(n *node) {
	const key = "once"
	n.start(types(10, func(p *policy.Type) { p.Delivery = policy.AtMostOnce }, "mail"), map[string]handle{"mail": func(_ context.Context, t *task.Task) ([]byte, error) {
		return nil, task.Again(time.Time{}, task.WithDocuments(task.DocumentWrite{Key: key, Replaces: new(uint64(7))}))
	}})
	id := n.submit(near("mail", key, ""))[0]
	n.wait(id)
	if t := n.expect(id, task.Error); !strings.Contains(t.LastError, `the document "once" does not exist any more`) || !strings.Contains(t.LastError, "at_most_once") {
		n.Errorf("the error is %q", t.LastError)
	}
}

func listsDocuments(n *node) {
	n.start(types(10, nil, "mail"), map[string]handle{"mail": done})
	for _, key := range []string{"a/1", "a/2", "a/3", "b/1"} {
		if err := n.WriteDocuments(n.ctx, task.DocumentWrite{Key: key, Data: []byte("of " + key), Replaces: new(uint64(0))}); err != nil {
			n.Fatal(err)
		}
	}
	var conflict *task.DocumentConflict
	if err := n.WriteDocuments(n.ctx, task.DocumentWrite{Key: "a/1", Replaces: new(uint64(0))}); !errors.As(err, &conflict) {
		n.Errorf("to create it again returns %v", err)
	}
	if err := n.WriteDocuments(n.ctx, task.DocumentWrite{Key: "a/2", Delete: true}); err != nil {
		n.Error(err)
	}
	if err := n.WriteDocuments(n.ctx, task.DocumentWrite{Key: "a/3", Data: []byte("gone"), ExpiresAt: n.Now().Add(-time.Second)}); err != nil {
		n.Error(err)
	}
	n.close()
	n.reopenStore()
	n.open()
	var keys []string
	for after := ""; ; {
		page, next, err := n.Documents(n.ctx, "a/", after, 1)
		if err != nil {
			n.Fatal(err)
		}
		for _, d := range page {
			keys = append(keys, d.Key+" "+string(d.Data))
		}
		if after = next; after == "" {
			break
		}
	}
	if want := []string{"a/1 of a/1"}; !slices.Equal(keys, want) {
		n.Errorf("the documents are %q, want %q", keys, want)
	}
}
