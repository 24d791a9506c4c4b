package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taskengine/taskengine/codec"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// keysIn returns how many payloads, checkpoints and signals of tasks that have not ended are under each key, by its name.
func (n *node) keysIn() map[string]int {
	n.t.Helper()
	keys := make(map[string]int)
	all, _, err := n.List(context.Background(), storage.Filter{}, task.ID{}, 1000)
	if err != nil {
		n.t.Fatal(err)
	}
	for _, t := range all {
		if t.State == task.Done || t.State == task.Failed || t.State == task.Cancelled {
			continue
		}
		row, err := n.store.Get(context.Background(), t.ID)
		if err != nil {
			n.t.Fatal(err)
		}
		parts := [][]byte{row.Payload, row.Checkpoint(), row.Woken().Signal.Data}
		if row.Signals != nil {
			for _, kept := range row.Signals.Kept {
				parts = append(parts, kept.Data)
			}
		}
		for _, part := range parts {
			if len(part) > 0 {
				keys[codec.KeyOf(part)]++
			}
		}
	}
	return keys
}

// A task has kept two signals, and one has ended its wait. The attempt after that fails, and is retried.
func TestSignalsThatATaskHasAreUnderTheKeyOfToday(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var seen []string
		fails := true
		n := secrets(t, func(p *policy.Type) { p.Retry.Max = policy.Forever }, func(ctx context.Context, r *task.Task) ([]byte, error) {
			w := r.Woken()
			if w.By == task.NotWoken {
				return nil, task.WaitFor([]string{"first"}, time.Time{})
			}
			seen = append(seen, string(w.Signal.Data))
			if fails {
				return nil, task.RetryIn(time.Hour, errNo)
			}
			if string(w.Signal.Data) != "second1" {
				return nil, task.WaitFor([]string{"second"}, time.Time{})
			}
			return nil, nil
		})
		id := n.submit(engine.Request{Type: "mail"})
		time.Sleep(time.Second)
		for i, name := range []string{"second", "second", "first"} {
			if _, _, err := n.Signal(t.Context(), engine.Signal{To: id, Name: name, Data: fmt.Append(nil, name, i), Keep: true}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		if got := n.keysIn(); len(got) != 1 || got["k"] != 3 || len(seen) != 1 {
			t.Fatalf("before the change: %v, %q", got, seen)
		}
		n.close()
		n.config.Codec = encrypting(t, "nk")
		n.open()
		time.Sleep(2 * time.Hour)
		if got := n.keysIn(); len(got) != 1 || got["n"] != 3 {
			t.Errorf("after the change: %v", got)
		}
		n.close()
		n.config.Codec = encrypting(t, "n")
		fails = false
		n.open()
		time.Sleep(2 * time.Hour)
		if got := n.get(id); got.State != task.Done || len(seen) < 3 {
			t.Fatalf("it is %v, and has seen %q", got.State, seen)
		}
		for i, want := range []string{"first2", "second0", "second1"} {
			if got := seen[len(seen)-3:]; got[i] != want {
				t.Errorf("the handler has seen %q", seen)
			}
		}
	})
}

func TestWhatIsWrittenIsUnderTheKeyOfToday(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		what := make(map[string]error) // the result of the handler of a payload; nil: it runs again in a minute
		n := secrets(t, func(p *policy.Type) { p.Retry.Max = policy.Forever }, func(ctx context.Context, r *task.Task) ([]byte, error) {
			if r.Attempt <= 1 && r.Checkpoint() == nil {
				if err := task.SaveCheckpoint(ctx, []byte("page 7")); err != nil {
					return nil, err
				}
			}
			name := string(r.Payload)
			clear(r.Payload) // it belongs to the handler
			err, ok := what[name]
			switch {
			case !ok:
				t.Errorf("the payload is %q", name)
			case err == nil:
				return nil, task.Again(time.Now().Add(time.Minute))
			}
			return nil, err
		})
		what["again"] = nil
		what["checkpointed"] = task.Again(time.Now().Add(time.Hour), task.WithCheckpoint([]byte("page 8")))
		what["retried"] = errNo
		what["snoozed"] = task.Snooze(10 * time.Minute)
		for _, verb := range []string{"resumed", "edited", "parked", "rescheduled"} {
			what[verb] = task.Permanent(errNo)
		}
		ids := make(map[string]task.ID)
		for name := range what {
			ids[name] = n.submit(engine.Request{Type: "mail", Payload: []byte(name)})
		}
		time.Sleep(time.Second)
		if got := n.keysIn(); len(got) != 1 || got["k"] == 0 {
			t.Fatalf("before the change: %v", got)
		}
		n.close()
		n.config.Codec = encrypting(t, "nk")
		n.open()
		ctx, never := t.Context(), time.Time{}
		for verb, do := range map[string]func(task.Ref) (*task.Task, error){
			"resumed":     func(r task.Ref) (*task.Task, error) { return n.Resume(ctx, r) },
			"edited":      func(r task.Ref) (*task.Task, error) { return n.Edit(ctx, r, engine.Edit{Checkpoint: new([]byte("x"))}) },
			"parked":      func(r task.Ref) (*task.Task, error) { return n.Edit(ctx, r, engine.Edit{At: &never}) },
			"rescheduled": func(r task.Ref) (*task.Task, error) { return n.Reschedule(ctx, r, time.Now().Add(time.Hour)) },
		} {
			if _, err := do(task.Ref{ID: ids[verb]}); err != nil {
				t.Errorf("%s: %v", verb, err)
			}
		}
		time.Sleep(2 * time.Hour)
		if got := n.keysIn(); len(got) != 1 || got["n"] == 0 {
			t.Errorf("after the change: %v", got)
		}
		n.close()
		n.config.Codec = encrypting(t, "n")
		n.open()
		time.Sleep(2 * time.Hour)
		for name, id := range ids {
			got := n.get(id)
			want := "page 7"
			switch name {
			case "again":
				want = "" // the work was done, and left none
			case "checkpointed":
				want = "page 8"
			case "edited":
				want = "x"
			}
			if string(got.Payload) != name || string(got.Checkpoint()) != want {
				t.Errorf("%s has %q and %q", name, got.Payload, got.Checkpoint())
			}
		}
		if len(n.MissingKeys()) != 0 {
			t.Errorf("missing: %+v", n.MissingKeys())
		}
	})
}

func TestACheckpointOfTheAttemptIsNotReplacedByTheOneBefore(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var page atomic.Int64
		n := secrets(t, nil, func(ctx context.Context, t *task.Task) ([]byte, error) {
			return nil, errors.Join(task.SaveCheckpoint(ctx, fmt.Append(nil, "page ", page.Add(1))), errNo)
		})
		id := n.submit(engine.Request{Type: "mail", Payload: []byte("x")})
		time.Sleep(500 * time.Millisecond)
		n.close()
		n.config.Codec = encrypting(t, "nk")
		n.open()
		for before := page.Load(); page.Load() == before; {
			time.Sleep(time.Second)
		}
		if got := n.get(id); string(got.Checkpoint()) != fmt.Sprint("page ", page.Load()) || n.keysIn()["k"] != 0 {
			t.Errorf("after page %d the checkpoint is %q, keys %v", page.Load(), got.Checkpoint(), n.keysIn())
		}
	})
}

// twoTypes returns a set with the types mail and idle.
func twoTypes() policy.Set {
	set := one("mail", nil)
	set.Types["idle"] = set.Types["mail"]
	return set
}

func TestTasksWithAMissingKeyDelayNoOthersAndRunWhenItIsBack(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const all = 300
		var ran, changes atomic.Int64
		work := func(context.Context, *task.Task) ([]byte, error) { ran.Add(1); return nil, nil }
		handlers := handle("mail", work)
		handlers["idle"] = task.HandlerFunc(work)
		n := startWith(t, twoTypes(), handlers, func(c *engine.Config) {
			c.Codec = encrypting(t, "k")
			c.Observer.Saved = func(time.Time, task.Ref, *task.Task) { changes.Add(1) }
		})
		if err := n.Pause(t.Context(), "mail"); err != nil {
			t.Fatal(err)
		}
		var ids []task.ID
		for range all {
			ids = append(ids, n.submit(engine.Request{Type: "mail", Payload: []byte("old")}))
		}
		n.close()
		n.config.Codec = encrypting(t, "n")
		n.open()
		if err := n.Unpause(t.Context(), "mail"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		for range 20 {
			for _, typ := range []string{"mail", "idle"} { // also one of the same type, with a good key
				n.end(n.submit(engine.Request{Type: typ, Payload: []byte("new")}))
			}
			time.Sleep(3 * time.Minute)
		}
		if got := ran.Load(); got != 40 {
			t.Errorf("%d tasks have run, want 40", got)
		}
		if got := changes.Load(); got > 100*all {
			t.Errorf("%d rows were changed in an hour", got)
		}
		missing := n.MissingKeys()
		if len(missing) != 1 || missing[0].Name != "k" || missing[0].Tasks < all || missing[0].Tasks > all+all/10 || missing[0].Type != "mail" {
			t.Errorf("missing: %+v", missing)
		}
		shown, why, err := n.Why(t.Context(), ids[0])
		if err != nil || len(why) == 0 || why[0].Code != engine.CodeKey || !strings.Contains(why[0].Text, `"k"`) {
			t.Errorf("why: %+v, %v", why, err)
		}
		if len(shown.History) != 0 || shown.Attempt != 0 || !strings.Contains(shown.LastError, `"k"`) {
			t.Errorf("the task is %+v", shown)
		}
		n.close()
		n.config.Codec = encrypting(t, "nk")
		n.open()
		time.Sleep(time.Second)
		if got := ran.Load(); got != 40+all {
			t.Errorf("%d tasks have run, want %d", got, 40+all)
		}
		if missing := n.MissingKeys(); len(missing) != 0 {
			t.Errorf("missing: %+v", missing)
		}
	})
}

func TestTasksThatWaitForAKeyExpireInTime(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := secrets(t, nil, func(context.Context, *task.Task) ([]byte, error) { return nil, nil })
		at := n.Now().Add(time.Hour)
		id := n.submit(engine.Request{Type: "mail", Payload: []byte("old"), At: at, ExpiresAt: at.Add(10 * time.Minute)})
		n.close()
		n.config.Codec = encrypting(t, "n")
		n.open()
		time.Sleep(time.Hour + 9*time.Minute)
		if _, err := n.Get(t.Context(), id); !errors.Is(err, codec.ErrNoKey) {
			t.Errorf("get: %v", err)
		}
		if _, why, err := n.Why(t.Context(), id); err != nil || why[0].Code != engine.CodeKey {
			t.Errorf("why: %+v, %v", why, err)
		}
		time.Sleep(2 * time.Minute)
		row, err := n.store.Get(t.Context(), id)
		if err != nil || row.State != task.Error || !strings.Contains(row.LastError, "expired") {
			t.Errorf("the task is %+v, %v", row, err)
		}
	})
}

func TestWhatIsDamagedIsAnErrorOfItsTask(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := secrets(t, nil, func(context.Context, *task.Task) ([]byte, error) { return nil, nil })
		packed, err := codec.New(codec.Config{CompressAbove: 1})
		if err != nil {
			t.Fatal(err)
		}
		bomb, err := packed.Encode(codec.Content{Type: "mail", Kind: codec.Payload}, make([]byte, policy.DefaultMaxPayload+1))
		if err != nil {
			t.Fatal(err)
		}
		flipped, err := encrypting(t, "k").Encode(codec.Content{Type: "mail", Kind: codec.Payload}, []byte("secret"))
		if err != nil {
			t.Fatal(err)
		}
		flipped[len(flipped)-1] ^= 1
		for name, stored := range map[string][]byte{"a bit is flipped": flipped, "an envelope of nothing": []byte("\x00te\x01\x40abc"), "a bomb": bomb} {
			id := n.submit(engine.Request{Type: "mail", Payload: []byte("x"), At: time.Now().Add(time.Minute)})
			row, err := n.store.Get(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			change := task.Change{Ref: row.Ref(), To: task.Waiting, At: n.Now(), NextEventAt: row.NextEventAt, Payload: &stored}
			if rows, err := n.store.Swap(t.Context(), change); err != nil || rows[0] == nil {
				t.Fatal(err)
			}
			n.close()
			n.open()
			time.Sleep(2 * time.Minute)
			if row, err = n.store.Get(t.Context(), id); err != nil || row.State != task.Error || row.Attempt != 1 || !strings.Contains(row.LastError, "cannot be decoded") {
				t.Errorf("%s: the task is %v after %d attempts: %q, %v", name, row.State, row.Attempt, row.LastError, err)
			}
		}
		if missing := n.MissingKeys(); len(missing) != 0 {
			t.Errorf("missing: %+v", missing)
		}
	})
}

func TestATaskWithAMissingKeyKeepsItsValuesOfLimits(t *testing.T) {
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
		n.config.Policies, n.config.Codec = set, encrypting(t, "n")
		n.open()
		time.Sleep(2 * time.Hour)
		n.close()
		n.config.Codec = encrypting(t, "nk")
		n.open()
		time.Sleep(time.Hour)
		got := j.payloads()
		if slices.Sort(got); !slices.Equal(got, []string{`{"to":"a"}`, `{"to":"a"}`, `{"to":"b"}`}) || j.most != 2 {
			t.Errorf("%q have run, %d at once, want 3 and 2", got, j.most)
		}
	})
}

func TestAKeyOfTheSameNameWithOtherBytesIsMissing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := secrets(t, nil, func(context.Context, *task.Task) ([]byte, error) { return nil, nil })
		id := n.submit(engine.Request{Type: "mail", Payload: []byte("x"), At: time.Now().Add(time.Hour)})
		n.close()
		right := n.config.Codec
		wrong, err := codec.New(codec.Config{Keys: map[string][]byte{"k": bytes.Repeat([]byte("?"), codec.KeySize)}, Key: "k"})
		if err != nil {
			t.Fatal(err)
		}
		n.config.Codec = wrong
		n.open()
		time.Sleep(3 * time.Hour)
		if row, err := n.store.Get(t.Context(), id); err != nil || row.State == task.Error || !strings.Contains(row.LastError, "another key") {
			t.Errorf("the task is %+v, %v", row, err)
		}
		n.close()
		n.config.Codec = right
		n.open()
		n.end(id)
	})
}
