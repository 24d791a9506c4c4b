package engine_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/codec"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// encrypting returns a codec that encrypts with one of the keys named by the letters, the first.
func encrypting(t *testing.T, names string) codec.Codec {
	t.Helper()
	keys := make(map[string][]byte)
	for _, name := range names {
		keys[string(name)] = bytes.Repeat([]byte(string(name)), codec.KeySize)
	}
	c, err := codec.New(codec.Config{Keys: keys, Key: names[:1]})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// secrets returns a node that encrypts the content of the tasks of type mail.
func secrets(t *testing.T, change func(*policy.Type), h func(context.Context, *task.Task) ([]byte, error)) *node {
	t.Helper()
	return startWith(t, one("mail", change), handle("mail", h), func(c *engine.Config) { c.Codec = encrypting(t, "k") })
}

// row returns a task as it is stored, and fails the test if something that it carries can be read.
func (n *node) row(id task.ID) *task.Task {
	n.t.Helper()
	r, err := n.store.Get(context.Background(), id)
	if err != nil {
		n.t.Fatal(err)
	}
	for _, stored := range [][]byte{r.Payload, r.Result, r.Checkpoint()} {
		if len(stored) > 0 && codec.Describe(stored) != "aes-256-gcm with the key k" {
			n.t.Errorf("the store has %q", stored)
		}
	}
	return r
}

func TestTheStoreHasNothingThatCanBeRead(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var seen []string
		next := make(chan error)
		n := secrets(t, nil, func(ctx context.Context, t *task.Task) ([]byte, error) {
			seen = append(seen, string(t.Payload)+", "+string(t.Checkpoint()))
			if t.Attempt == 1 {
				if err := task.SaveCheckpoint(ctx, []byte("page 7")); err != nil {
					return nil, err
				}
			}
			return []byte("sent"), <-next
		})
		id := n.submit(engine.Request{Type: "mail", Payload: []byte("hello")})
		later := n.submit(engine.Request{Type: "mail", Payload: []byte("later"), At: time.Now().Add(time.Hour)})
		time.Sleep(time.Second)
		n.row(id)
		n.row(later)
		next <- errors.New("no")
		time.Sleep(time.Second)
		n.row(id)
		if got := n.get(id); string(got.Payload) != "hello" || string(got.Checkpoint()) != "page 7" {
			t.Errorf("the task has %q and %q", got.Payload, got.Checkpoint())
		}
		time.Sleep(time.Minute)
		next <- task.Again(n.Now().Add(time.Minute), task.WithPayload([]byte("next")), task.WithCheckpoint([]byte("page 8")))
		time.Sleep(time.Second)
		n.row(id)
		if got := n.get(id); string(got.Result) != "sent" {
			t.Errorf("the result is %q", got.Result)
		}
		edited, err := n.Edit(t.Context(), task.Ref{ID: id}, engine.Edit{Payload: new([]byte("edited")), Checkpoint: new([]byte("page 9"))})
		if err != nil || string(edited.Payload) == "" && string(n.get(id).Payload) != "edited" {
			t.Errorf("%+v, %v", edited, err)
		}
		n.row(id)
		time.Sleep(time.Minute)
		next <- nil
		time.Sleep(time.Second)
		n.row(id)
		if got := n.expect(id, task.Done); string(got.Payload) != "edited" || string(got.Result) != "sent" {
			t.Errorf("the task has %q and %q", got.Payload, got.Result)
		}
		if want := []string{"hello, ", "hello, page 7", "edited, page 9"}; !slices.Equal(seen, want) {
			t.Errorf("the handler has seen %q, want %q", seen, want)
		}
		if _, err := n.Cancel(t.Context(), task.Ref{ID: later}, "not wanted"); err != nil {
			t.Fatal(err)
		}
	})
}

func TestEndsInTransactionsAndOfEarlierAttemptsAreEncodedToo(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var n *node
		n = secrets(t, nil, func(ctx context.Context, t *task.Task) ([]byte, error) {
			err := n.store.Update(ctx, func(tx storage.Tx) error {
				if t.Attempt == 1 && string(t.Payload) == "again" {
					return engine.AgainTx(ctx, tx, []byte("first"), n.Now().Add(time.Minute), task.WithPayload([]byte("once more")))
				}
				return engine.FinishTx(ctx, tx, []byte("done"))
			})
			return nil, err
		})
		id := n.submit(engine.Request{Type: "mail", Payload: []byte("again")})
		time.Sleep(time.Second)
		if n.row(id); string(n.get(id).Result) != "first" {
			t.Errorf("the task is %+v", n.get(id))
		}
		if got := n.end(id); string(got.Result) != "done" || string(got.Payload) != "once more" {
			t.Errorf("the task has %q and %q", got.Payload, got.Result)
		}
		n.row(id)
		n.close()
		n.config.Await = map[string]time.Duration{"mail": time.Minute}
		ref := ranBefore(n, 1, "mail", func(r *task.Task) { r.Payload = nil })
		n.open()
		endEarlier(t, n, 1, engine.EarlierEnd{Ref: ref, Type: "mail", Result: []byte("sent")})
		if n.row(ref.ID); string(n.get(ref.ID).Result) != "sent" {
			t.Errorf("the task is %+v", n.get(ref.ID))
		}
	})
}

func TestATaskThatReplacesAnotherIsEncoded(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := secrets(t, func(p *policy.Type) { p.Unique.OnConflict = policy.ReplaceExisting }, func(context.Context, *task.Task) ([]byte, error) { return nil, nil })
		at := time.Now().Add(time.Hour)
		id := n.submit(engine.Request{Type: "mail", Key: "a", Payload: []byte("one"), At: at})
		n.submit(engine.Request{Type: "mail", Key: "a", Payload: []byte("two"), At: at})
		if n.row(id); string(n.get(id).Payload) != "two" {
			t.Errorf("the task has %q", n.get(id).Payload)
		}
	})
}

func TestATaskThatCannotBeDecodedWaitsUntilItCan(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var seen []string
		n := secrets(t, nil, func(_ context.Context, t *task.Task) ([]byte, error) {
			seen = append(seen, string(t.Payload))
			return nil, nil
		})
		at := time.Now().Add(time.Hour)
		id := n.submit(engine.Request{Type: "mail", Payload: []byte("old"), At: at})
		n.close()
		n.config.Codec = encrypting(t, "n")
		n.open()
		time.Sleep(time.Hour + 10*time.Second + 500*time.Millisecond)
		if _, err := n.Get(t.Context(), id); !errors.Is(err, codec.ErrNoKey) || !strings.Contains(err.Error(), `"k"`) {
			t.Errorf("get: %v", err)
		}
		shown, why, err := n.Why(t.Context(), id)
		if err != nil || len(shown.Payload) != 0 || shown.Attempt != 0 || !strings.Contains(shown.LastError, `encrypted with the key "k"`) {
			t.Errorf("why: %+v, %+v, %v", shown, why, err)
		}
		later, err := n.Reschedule(t.Context(), task.Ref{ID: id}, time.Now().Add(time.Minute))
		if err != nil || len(later.Payload) != 0 {
			t.Errorf("rescheduled: %+v, %v", later, err)
		}
		fresh := n.submit(engine.Request{Type: "mail", Payload: []byte("new")})
		n.end(fresh)
		n.close()
		n.config.Codec = encrypting(t, "nk")
		n.open()
		n.end(id)
		if want := []string{"new", "old"}; !slices.Equal(seen, want) {
			t.Errorf("the handler has seen %q, want %q", seen, want)
		}
	})
}

func TestValuesOfLimitsAreReadFromWhatIsEncoded(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var j journal
		set := one("mail", nil)
		n := startWith(t, set, handle("mail", j.work(time.Minute)), func(c *engine.Config) { c.Codec = encrypting(t, "k") })
		at := time.Now().Add(time.Hour)
		for _, payload := range []string{`{"to":"a"}`, `{"to":"a"}`, `{"to":"b"}`} {
			n.submit(engine.Request{Type: "mail", Payload: []byte(payload), At: at})
		}
		n.close()
		p := set.Types["mail"]
		p.Limits = []string{"recipient"}
		set.Types["mail"] = p
		set.Limits = map[string]policy.Limit{"recipient": {Name: "recipient", Max: 1, Per: "payload.to"}}
		n.config.Policies = set
		n.open()
		n.submit(engine.Request{Type: "mail", Payload: []byte(`{"to":"b"}`), At: at})
		if err := n.WaitType(t.Context(), "mail"); err != nil {
			t.Fatal(err)
		}
		if len(j.payloads()) != 4 || j.most != 2 {
			t.Errorf("%d tasks have run, %d at once, want 4 and 2", len(j.payloads()), j.most)
		}
	})
}

// failing is a codec that encodes nothing of a kind.
type failing struct {
	codec.Codec
	kind codec.Kind
}

func (f failing) Encode(c codec.Content, data []byte) ([]byte, error) {
	if c.Kind == f.kind {
		return nil, errors.New("the key service does not answer")
	}
	return data, nil
}

func (f failing) Decode(_ codec.Content, stored []byte) ([]byte, error) { return stored, nil }

func TestWhatCannotBeEncodedIsNotStored(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := startWith(t, one("mail", nil), handle("mail", func(ctx context.Context, t *task.Task) ([]byte, error) {
			return []byte("sent"), nil
		}), func(c *engine.Config) { c.Codec = failing{kind: codec.Result} })
		id := n.submit(engine.Request{Type: "mail", Payload: []byte("x")})
		time.Sleep(time.Second)
		if got := n.get(id); got.State != task.Waiting || !strings.Contains(got.LastError, "encode the result: the key service") {
			t.Errorf("the task is %v, %q", got.State, got.LastError)
		}
		n.close()
		n.config.Codec = failing{kind: codec.Payload}
		n.open()
		if _, err := n.Submit(t.Context(), engine.Request{Type: "mail", Payload: []byte("x")}); err == nil || !strings.Contains(err.Error(), "encode the payload: the key service") {
			t.Errorf("submit: %v", err)
		}
		n.end(id)
	})
}

func TestTasksAreReadTogether(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := secrets(t, nil, func(context.Context, *task.Task) ([]byte, error) { return nil, nil })
		later := time.Now().Add(time.Hour)
		ids := []task.ID{n.submit(engine.Request{Type: "mail", Payload: []byte("a"), At: later}), {1, 2}, n.submit(engine.Request{Type: "mail", Payload: []byte("b"), At: later})}
		got, err := n.GetAll(t.Context(), ids...)
		if err != nil || len(got) != 3 || string(got[0].Payload) != "a" || got[1] != nil || string(got[2].Payload) != "b" {
			t.Errorf("%+v, %v", got, err)
		}
		n.close()
		n.config.Codec = encrypting(t, "o")
		n.open()
		if got, err := n.GetAll(t.Context(), ids[0]); err != nil || got[0].ID != ids[0] || got[0].Payload != nil {
			t.Errorf("one that cannot be decoded: %+v, %v", got, err)
		}
	})
}
