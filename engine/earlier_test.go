package engine_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
)

// ranBefore adds a task to the store of n, which is closed, as an earlier process left it that ran it.
func ranBefore(n *node, id byte, typ string, change func(*task.Task)) task.Ref {
	n.t.Helper()
	r := &task.Task{ID: task.ID{id}, Type: typ, Priority: 5, Payload: []byte("old")}
	if change != nil {
		change(r)
	}
	r.Create(task.Submitted, time.Now(), time.Time{})
	if r.OrderingKey != "" {
		r.Turn = task.Head
	}
	task.Change{Ref: r.Ref(), To: task.Processing, At: time.Now(), NextEventAt: time.Now(), Owner: task.ID{77}}.Apply(r)
	if _, err := n.store.Insert(n.t.Context(), r); err != nil {
		n.t.Fatal(err)
	}
	return r.Ref()
}

// awaiting returns a node that is closed, and that awaits the ends of attempts of an earlier process for 5 seconds.
func awaiting(t *testing.T, change func(*policy.Type)) (*node, *journal) {
	t.Helper()
	j := new(journal)
	n := startWith(t, one("mail", change), handle("mail", j.work(0)), func(c *engine.Config) {
		c.Await = map[string]time.Duration{"mail": 5 * time.Second}
	})
	n.close()
	return n, j
}

func endEarlier(t *testing.T, n *node, want int, ends ...engine.EarlierEnd) {
	t.Helper()
	if got, err := n.EndEarlier(t.Context(), ends...); got != want || err != nil {
		t.Fatalf("%d ends count, %v; want %d", got, err, want)
	}
}

func TestTheEndOfAnEarlierAttemptCountsOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n, j := awaiting(t, nil)
		ended, again := ranBefore(n, 1, "mail", nil), ranBefore(n, 2, "mail", nil)
		n.open()
		_, why, err := n.Why(t.Context(), ended.ID)
		if err != nil || !slices.ContainsFunc(why, func(r engine.Reason) bool { return strings.Contains(r.Text, "may still arrive") }) {
			t.Errorf("why: %+v, %v", why, err)
		}
		time.Sleep(4 * time.Second)
		n.expect(again.ID, task.Processing)
		end := engine.EarlierEnd{Ref: ended, Type: "mail", Result: []byte("sent")}
		endEarlier(t, n, 1, end)
		endEarlier(t, n, 0, end)
		got := n.end(ended.ID)
		if got.State != task.Done || string(got.Result) != "sent" || got.Attempt != 1 || got.Crashes != 0 {
			t.Errorf("got %+v", got)
		}
		got = n.end(again.ID)
		if got.State != task.Done || got.Attempt != 2 || got.History[0].Outcome != task.Crashed || len(j.payloads()) != 1 {
			t.Errorf("got %+v after %d runs", got, len(j.payloads()))
		}
		endEarlier(t, n, 0, engine.EarlierEnd{Ref: again, Type: "mail", Result: []byte("too late")})
		if got := n.get(again.ID); string(got.Result) != "old" {
			t.Errorf("a late end counted: %+v", got)
		}
	})
}

func TestTheEndOfAnEarlierAttemptIsDecidedByThePolicy(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n, _ := awaiting(t, func(p *policy.Type) { p.Retry.Max = 1; p.MaxResult = 4 })
		type want struct {
			err    error
			result string
			state  task.State
			last   string
		}
		wants := []want{
			{errors.New("no"), "", task.Error, "no (attempt 1 of 1)"},
			{task.Permanent(errors.New("never")), "", task.Error, "never"},
			{task.Snooze(time.Hour), "", task.Waiting, ""},
			{nil, "too long", task.Error, "has 8 bytes"},
			{task.Again(time.Now().Add(2*time.Hour), task.WithPayload([]byte("next"))), "1", task.Waiting, ""},
			{task.Again(time.Now().Add(time.Hour), task.WithTasks(engine.Request{Type: "mail"})), "1", task.Waiting, ""},
			{task.Again(time.Time{}, task.WithTasks(engine.Request{})), "1", task.Error, "type is missing"},
			{task.Again(time.Now().AddDate(9000, 0, 0)), "1", task.Error, "years"},
			{task.Ended(), "", task.Error, ""},
		}
		refs := make([]task.Ref, len(wants))
		for i := range wants {
			refs[i] = ranBefore(n, byte(i+1), "mail", nil)
		}
		n.open()
		for i, w := range wants {
			endEarlier(t, n, 1, engine.EarlierEnd{Ref: refs[i], Type: "mail", Result: []byte(w.result), Err: w.err})
			if got := n.expect(refs[i].ID, w.state); !strings.Contains(got.LastError, w.last) {
				t.Errorf("%d: last error %q", i, got.LastError)
			}
		}
		if got := n.get(refs[4].ID); string(got.Payload) != "next" || !got.NextEventAt.Equal(n.Now().Add(2*time.Hour)) {
			t.Errorf("the task that runs again: %+v", got)
		}
	})
}

func TestAnEarlierEndOfSomethingElseDoesNotCount(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n, _ := awaiting(t, nil)
		ref := ranBefore(n, 1, "mail", nil)
		n.open()
		other := ref
		other.Version++
		endEarlier(t, n, 0,
			engine.EarlierEnd{Ref: other, Type: "mail"},
			engine.EarlierEnd{Ref: ref, Type: "page"},
			engine.EarlierEnd{Ref: task.Ref{ID: task.ID{99}, Version: 1}, Type: "mail"})
		if _, err := n.Cancel(t.Context(), ref, "not wanted"); err != nil {
			t.Fatal(err)
		}
		endEarlier(t, n, 0, engine.EarlierEnd{Ref: ref, Type: "mail"})
		n.expect(ref.ID, task.Cancelled)
		n.close()
		n.config.Handlers = handle("mail", func(ctx context.Context, _ *task.Task) ([]byte, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		n.open()
		id := n.submit(engine.Request{Type: "mail"})
		endEarlier(t, n, 0, engine.EarlierEnd{Ref: n.expect(id, task.Processing).Ref(), Type: "mail"})
		if _, err := n.Cancel(t.Context(), n.get(id).Ref(), "not wanted"); err != nil {
			t.Fatal(err)
		}
	})
}

func TestTheNextTaskOfAKeyFollowsTheEndOfAnEarlierAttempt(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n, j := awaiting(t, func(p *policy.Type) { p.Retention.Done = 0 })
		keyed := func(r *task.Task) { r.OrderingKey = "room 1" }
		first := ranBefore(n, 1, "mail", keyed)
		n.open()
		next := n.submit(engine.Request{Type: "mail", OrderingKey: "room 1", Payload: []byte("next")})
		time.Sleep(time.Second)
		if len(j.payloads()) != 0 {
			t.Fatal("a task behind a running head began")
		}
		endEarlier(t, n, 1, engine.EarlierEnd{Ref: first, Type: "mail"})
		if err := n.WaitTasks(t.Context(), next); err != nil {
			t.Fatal(err)
		}
		if got := j.payloads(); !slices.Equal(got, []string{"next"}) {
			t.Errorf("ran %q", got)
		}
	})
}

// following is the end of an earlier attempt that adds a task with this key.
func following(ref task.Ref, typ, key string) engine.EarlierEnd {
	return engine.EarlierEnd{
		Ref: ref, Type: typ, Result: []byte("sent"),
		Err: task.Again(time.Time{}, task.WithTasks(engine.Request{Type: "mail", Key: key, OrderingKey: key, Payload: []byte(key)}, engine.Request{Type: "mail", Payload: []byte("also " + key)})),
	}
}

func TestTheTasksThatAnEarlierEndAddsExistIfItCounts(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n, j := awaiting(t, func(p *policy.Type) { p.Retention.Done = time.Minute })
		var inserted []string
		n.config.Observer.Inserted = func(_ time.Time, t *task.Task) { inserted = append(inserted, string(t.Payload)) }
		first, late, taken := ranBefore(n, 1, "mail", nil), ranBefore(n, 2, "mail", nil), ranBefore(n, 3, "mail", nil)
		n.open()
		endEarlier(t, n, 1, following(first, "mail", "a"), following(first, "mail", "b"))
		endEarlier(t, n, 0, following(first, "mail", "c"))
		if got := n.get(first.ID); got.State != task.Done || string(got.Result) != "sent" {
			t.Errorf("the task is %+v", got)
		}
		if _, err := n.Cancel(t.Context(), late, "not wanted"); err != nil {
			t.Fatal(err)
		}
		endEarlier(t, n, 0, following(late, "mail", "d"))
		endEarlier(t, n, 1, following(taken, "mail", "a"))
		if err := n.WaitType(t.Context(), "mail"); err != nil {
			t.Fatal(err)
		}
		got := j.payloads()
		slices.Sort(got)
		if want := []string{"a", "also a", "also a"}; !slices.Equal(got, want) {
			t.Errorf("ran %q, want %q", got, want)
		}
		if slices.Sort(inserted); !slices.Equal(inserted, got) {
			t.Errorf("the observer got %q, and %q ran", inserted, got)
		}
	})
}

func TestAnEarlierEndWithTasksThatHaveNoRoomIsAnErrorOfItsAttempt(t *testing.T) {
	for name, c := range map[string]struct {
		when     policy.WhenFull
		delivery policy.Delivery
		state    task.State
	}{
		"reject":               {policy.Reject, policy.AtLeastOnce, task.Waiting},
		"pause":                {policy.PauseSource, policy.AtLeastOnce, task.Waiting},
		"reject, at most once": {policy.Reject, policy.AtMostOnce, task.Error},
		"pause, at most once":  {policy.PauseSource, policy.AtMostOnce, task.Error},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				n, _ := awaiting(t, func(p *policy.Type) {
					p.MaxBacklog, p.Delivery = policy.Backlog{Max: 1, WhenFull: c.when}, c.delivery
				})
				ref := ranBefore(n, 1, "mail", nil)
				n.open()
				endEarlier(t, n, 1, following(ref, "mail", "a"))
				if got := n.expect(ref.ID, c.state); !strings.Contains(got.LastError, "backlog") {
					t.Errorf("the error is %q", got.LastError)
				}
				if got := n.backlog(); got.Tasks > 1 {
					t.Errorf("the backlog is %+v", got)
				}
			})
		})
	}
}
