package engine_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// unique returns a set with the type x, with this effect of requests with a taken key.
func unique(mode policy.OnConflict, edit func(*policy.Type)) policy.Set {
	return one("x", func(p *policy.Type) {
		p.Unique.OnConflict = mode
		if edit != nil {
			edit(p)
		}
	})
}

// submits are the two ways to submit.
func submits(n *node) map[string]func(...engine.Request) ([]engine.Receipt, error) {
	return map[string]func(...engine.Request) ([]engine.Receipt, error){
		"alone": func(reqs ...engine.Request) ([]engine.Receipt, error) { return n.Submit(n.t.Context(), reqs...) },
		"in a transaction": func(reqs ...engine.Request) (got []engine.Receipt, err error) {
			failed := n.store.Update(n.t.Context(), func(tx storage.Tx) error {
				got, err = n.SubmitTx(n.t.Context(), tx, reqs...)
				if got == nil {
					return err
				}
				return nil
			})
			return got, errors.Join(err, failed)
		},
	}
}

func TestARequestWithATakenKeyFollowsTheRulesOfItsType(t *testing.T) {
	for name := range submits(nil) {
		for mode, want := range map[policy.OnConflict]engine.SubmitOutcome{
			policy.KeepExisting: engine.OutcomeExisting, policy.RejectNew: engine.OutcomeRejected,
			policy.ReplaceExisting: engine.OutcomeReplaced, policy.DebounceExisting: engine.OutcomeReplaced,
		} {
			t.Run(mode.String()+" "+name, func(t *testing.T) {
				inBubble(t, func(t *testing.T) { requestOfATakenKey(t, name, mode, want) })
			})
		}
	}
}

func requestOfATakenKey(t *testing.T, name string, mode policy.OnConflict, want engine.SubmitOutcome) {
	var j journal
	began := time.Now()
	n := start(t, unique(mode, nil), handle("x", j.work(0)))
	submit := submits(n)[name]
	first := engine.Request{Type: "x", Key: "k", Payload: []byte("old"), At: began.Add(time.Hour), Headers: map[string]string{"old": "1"}}
	receipts, err := submit(first)
	if err != nil || receipts[0].Outcome != engine.OutcomeCreated || !receipts[0].Created {
		t.Fatalf("got %+v, %v", receipts, err)
	}
	was := n.get(receipts[0].ID)
	time.Sleep(time.Minute)
	other := engine.Request{
		Type: "x", Key: "k", Payload: []byte("new"), At: began.Add(2 * time.Hour), ExpiresAt: began.Add(3 * time.Hour),
		Headers: map[string]string{"new": "2"}, Priority: new(uint8(2)),
	}
	receipts, err = submit(engine.Request{Type: "x", Payload: []byte("another"), At: began.Add(30 * time.Hour)}, other)
	if rejects := mode == policy.RejectNew; errors.Is(err, engine.ErrExists) != rejects || !rejects && err != nil || rejects && !strings.Contains(err.Error(), was.ID.String()) {
		t.Fatalf("got %v", err)
	}
	if got := receipts[1]; got.ID != was.ID || got.Created || got.Outcome != want || !receipts[0].Created {
		t.Fatalf("got %+v", receipts)
	}
	n.expect(receipts[0].ID, task.Waiting)
	checkReplaced(t, mode, other, was, n.get(was.ID))
	is := n.end(was.ID)
	at, payload := time.Hour, "old"
	switch mode {
	case policy.ReplaceExisting:
		payload = "new"
	case policy.DebounceExisting:
		at, payload = 2*time.Hour, "new"
	}
	if got := j.payloads(); len(got) != 1 || got[0] != payload || !is.StartedAt.Equal(task.Stamp(began.Add(at))) {
		t.Errorf("the runs are %q, the last at %v", got, is.StartedAt.Sub(began))
	}
	receipts, err = submit(other)
	if want = engine.OutcomeAlreadyDone; mode == policy.KeepExisting { // the default: the task is not read
		want = engine.OutcomeExisting
	} else if mode == policy.RejectNew {
		want = engine.OutcomeRejected
	}
	if receipts[0].Outcome != want || receipts[0].ID != is.ID || errors.Is(err, engine.ErrExists) != (mode == policy.RejectNew) {
		t.Errorf("when the task is done: %+v, %v", receipts, err)
	}
	if now := n.get(is.ID); now.Version != is.Version {
		t.Errorf("it is at version %d, from %d", now.Version, is.Version)
	}
}

// checkReplaced compares a row with its state before another request of its key.
func checkReplaced(t *testing.T, mode policy.OnConflict, r engine.Request, was, is *task.Task) {
	t.Helper()
	want := was.Clone()
	if mode.Replaces() {
		want.Version, want.UpdatedAt = was.Version+1, is.UpdatedAt
		want.Payload, want.Priority, want.Headers, want.ExpiresAt = r.Payload, *r.Priority, r.Headers, task.Stamp(r.ExpiresAt)
	}
	if mode == policy.DebounceExisting {
		want.ReadyAt, want.NextEventAt = task.Stamp(r.At), task.Stamp(r.At)
	}
	if !want.ReadyAt.Equal(is.ReadyAt) || !want.NextEventAt.Equal(is.NextEventAt) || !want.ExpiresAt.Equal(is.ExpiresAt) || want.Version != is.Version ||
		want.Seq != is.Seq || string(want.Payload) != string(is.Payload) || want.Priority != is.Priority || !maps.Equal(want.Headers, is.Headers) {
		t.Errorf("it is %+v, want %+v", is, want)
	}
}

func TestATaskThatHasBegunIsNotReplaced(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		fails := make(chan bool)
		n := start(t, unique(policy.DebounceExisting, func(p *policy.Type) {
			p.Retry.Backoff = policy.Backoff{Kind: policy.Fixed, Delays: []time.Duration{time.Hour}}
		}), handle("x", func(_ context.Context, t *task.Task) ([]byte, error) {
			if <-fails {
				return nil, errNo
			}
			return t.Payload, nil
		}))
		id := n.submit(engine.Request{Type: "x", Key: "k", Payload: []byte("first")})
		again := engine.Request{Type: "x", Key: "k", Payload: []byte("second")}
		for _, fail := range []bool{true, false} { // while it runs, and while it waits for its second attempt
			receipts, err := n.Submit(t.Context(), again)
			if err != nil || receipts[0] != (engine.Receipt{ID: id}) {
				t.Errorf("got %+v, %v", receipts, err)
			}
			fails <- fail
			time.Sleep(time.Minute)
			receipts, err = n.Submit(t.Context(), again)
			if fail && (err != nil || receipts[0] != (engine.Receipt{ID: id})) {
				t.Errorf("while it waits for an attempt: %+v, %v", receipts, err)
			}
			if fail {
				time.Sleep(time.Hour)
			}
		}
		if got := n.end(id); string(got.Result) != "first" {
			t.Errorf("its result is %q", got.Result)
		}
	})
}

func TestAReadyTaskIsReplacedInItsPlaceAndDebouncedToTheEnd(t *testing.T) {
	for mode, want := range map[policy.OnConflict]string{policy.ReplaceExisting: "blocker a2 b", policy.DebounceExisting: "blocker b a2"} {
		inBubble(t, func(t *testing.T) {
			var j journal
			n := start(t, unique(mode, func(p *policy.Type) { p.Concurrency = 1 }), handle("x", j.work(time.Minute)))
			n.submit(engine.Request{Type: "x", Payload: []byte("blocker")})
			a := n.submit(engine.Request{Type: "x", Key: "a", Payload: []byte("a")})
			n.submit(engine.Request{Type: "x", Key: "b", Payload: []byte("b")})
			time.Sleep(time.Second)
			for _, payload := range []string{"a1", "a2"} {
				if receipts, err := n.Submit(t.Context(), engine.Request{Type: "x", Key: "a", Payload: []byte(payload)}); err != nil || receipts[0].Outcome != engine.OutcomeReplaced {
					t.Fatalf("got %+v, %v", receipts, err)
				}
			}
			if s := n.Stats(); s.Waiting != 2 {
				t.Errorf("%d triggers are in memory, for 2 tasks", s.Waiting)
			}
			time.Sleep(time.Hour)
			n.expect(a, task.Done)
			if got := strings.Join(j.payloads(), " "); got != want {
				t.Errorf("%v: they ran as %q, want %q", mode, got, want)
			}
		})
	}
}

func TestOfSeveralRequestsOfAKeyInOneCallTheLastIsKept(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := start(t, unique(policy.ReplaceExisting, nil), handle("x", func(context.Context, *task.Task) ([]byte, error) { return nil, nil }))
		var reqs []engine.Request
		for _, payload := range strings.Fields("1 2 3 4 5") {
			reqs = append(reqs, engine.Request{Type: "x", Key: "k", Payload: []byte(payload), At: time.Now().Add(time.Hour)})
		}
		receipts, err := n.Submit(t.Context(), reqs...)
		if err != nil || receipts[0].Outcome != engine.OutcomeCreated || receipts[4] != (engine.Receipt{ID: receipts[0].ID, Outcome: engine.OutcomeReplaced}) {
			t.Fatalf("got %+v, %v", receipts, err)
		}
		if got := n.get(receipts[0].ID); string(got.Payload) != "5" || got.Version != 2 {
			t.Errorf("it has %q at version %d", got.Payload, got.Version)
		}
	})
}

func TestAReplacedTaskCountsForTheLimitOfItsNewPayload(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		set := unique(policy.ReplaceExisting, func(p *policy.Type) { p.Limits = []string{"per-user"} })
		set.Limits = map[string]policy.Limit{"per-user": {Name: "per-user", Max: 1, Per: "payload.user"}}
		var j journal
		n := start(t, set, handle("x", j.work(time.Minute)))
		n.submit(engine.Request{Type: "x", Payload: []byte(`{"user": "a"}`)})
		id := n.submit(engine.Request{Type: "x", Key: "k", Payload: []byte(`{"user": "a"}`)})
		n.expect(id, task.Submitted)
		if _, err := n.Submit(t.Context(), engine.Request{Type: "x", Key: "k", Payload: []byte(`{"user": "b"}`)}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if got := n.expect(id, task.Processing); got.Group != "b" {
			t.Errorf("its group is %q", got.Group)
		}
		n.end(id)
	})
}

func TestARequestThatIsRepeatedWithItsIDIsNotRejected(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := start(t, unique(policy.RejectNew, nil), handle("x", func(context.Context, *task.Task) ([]byte, error) { return nil, nil }))
		r := engine.Request{ID: task.ID{1: 1, 6: 0x70, 8: 0x80, 15: 1}, Type: "x", Key: "k"}
		for i := range 2 {
			receipts, err := n.Submit(t.Context(), r)
			if err != nil || receipts[0].ID != r.ID || receipts[0].Created != (i == 0) {
				t.Errorf("try %d: %+v, %v", i, receipts, err)
			}
		}
	})
}

func TestAKeyIsMadeOfThePlacesThatATypeNames(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := start(t, unique(policy.KeepExisting, func(p *policy.Type) {
			p.Unique.By = []string{"key", "payload.order.id", "headers.tenant"}
			p.MaxBacklog.Max = 6
		}), nil)
		request := func(id, tenant string) engine.Request {
			return engine.Request{Type: "x", Payload: []byte(`{"order": {"id": ` + id + `}}`), Headers: map[string]string{"tenant": tenant}}
		}
		seen := make(map[task.ID]bool)
		for _, r := range []engine.Request{
			request(`"a"`, "b"), request(`"a\u001fb"`, "c"), request(`"a"`, "b\x1fc"), request("17", "b"), request("true", "b"),
			{Type: "x", Key: "k", Payload: []byte("no JSON")},
		} {
			first := n.submit(r)
			receipts, err := n.Submit(t.Context(), r) // also when there is no room for another task
			if seen[first] || err != nil || receipts[0] != (engine.Receipt{ID: first}) {
				t.Errorf("%s with %q: %v and then %+v, %v", r.Payload, r.Headers, first, receipts, err)
			}
			seen[first] = true
		}
		if got := n.submit(request(`"17"`, "b")); !seen[got] {
			t.Error("a text is another key than the same number")
		}
		for what, r := range map[string]engine.Request{
			"needs headers.tenant, and the request does not have it":   request("1", ""),
			"needs payload.order.id, and the request does not have it": request("null", "a"),
			"needs payload.order.id: it is not a JSON object":          {Type: "x", Payload: []byte("no JSON")},
			"bytes, of 500 allowed":                                    request("1", strings.Repeat("a", engine.MaxKey)),
		} {
			if _, err := n.Submit(t.Context(), r); !errors.Is(err, engine.ErrInvalid) || !strings.Contains(err.Error(), what) {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
}

// A head that is debounced takes the seat of the request, so an error before that seat stops its key.
func TestADebouncedHeadWaitsForAnErrorBeforeItsNewSeat(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		set := unique(policy.DebounceExisting, func(p *policy.Type) { p.Timeout.Queue = 0 })
		set.Types["y"] = set.Types["x"]
		y := set.Types["y"]
		y.Timeout.Queue = time.Minute
		set.Types["y"] = y
		var j journal
		n := start(t, set, map[string]task.Handler{"x": task.HandlerFunc(j.work(time.Second)), "y": task.HandlerFunc(j.work(time.Second))})
		for _, typ := range []string{"x", "y"} {
			if err := n.Pause(t.Context(), typ); err != nil {
				t.Fatal(err)
			}
		}
		head := n.submit(engine.Request{Type: "x", Key: "k", OrderingKey: "o", Payload: []byte("first")})
		expired := n.submit(engine.Request{Type: "y", OrderingKey: "o", Payload: []byte("expired")})
		later := n.submit(engine.Request{Type: "x", OrderingKey: "o", Payload: []byte("later")})
		time.Sleep(2 * time.Minute)
		n.expect(expired, task.Error)
		n.submitsAgain(engine.Request{Type: "x", Key: "k", OrderingKey: "o", Payload: []byte("debounced")}, engine.OutcomeReplaced)
		if err := n.Unpause(t.Context(), "x"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		n.expect(head, task.Submitted)
		n.expect(later, task.Submitted)
		if _, err := n.Fail(t.Context(), task.Ref{ID: expired}, ""); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if got := strings.Join(j.payloads(), " "); got != "later debounced" {
			t.Errorf("they ran as %q", got)
		}
	})
}

// submitsAgain submits a request with a taken key.
func (n *node) submitsAgain(r engine.Request, want engine.SubmitOutcome) {
	n.t.Helper()
	receipts, err := n.Submit(n.t.Context(), r)
	if err != nil || receipts[0].Outcome != want {
		n.t.Fatalf("got %+v, %v, want the outcome %v", receipts, err, want)
	}
}

// All requests of a key in one call are one change of the task.
func TestManyRequestsOfAKeyInOneCallAreOneChange(t *testing.T) {
	for _, mode := range []policy.OnConflict{policy.ReplaceExisting, policy.DebounceExisting} {
		inBubble(t, func(t *testing.T) {
			var j journal
			n := start(t, unique(mode, nil), handle("x", j.work(0)))
			var reqs []engine.Request
			for i := range 500 {
				reqs = append(reqs, engine.Request{Type: "x", Key: fmt.Sprint("k", i%2), Payload: fmt.Append(nil, i), At: time.Now().Add(time.Hour)})
			}
			receipts, err := n.Submit(t.Context(), reqs...)
			if err != nil {
				t.Fatal(err)
			}
			for i, r := range receipts {
				want := engine.Receipt{ID: receipts[i%2].ID, Outcome: engine.OutcomeReplaced}
				if i < 2 {
					want = engine.Receipt{ID: r.ID, Created: true, Outcome: engine.OutcomeCreated}
				}
				if r != want {
					t.Fatalf("receipt %d is %+v, want %+v", i, r, want)
				}
			}
			for i, want := range []string{"498", "499"} {
				if got := n.get(receipts[i].ID); string(got.Payload) != want || got.Version != 2 {
					t.Errorf("it has %s at version %d, want %s at version 2", got.Payload, got.Version, want)
				}
			}
			time.Sleep(2 * time.Hour)
			if got := len(j.payloads()); got != 2 {
				t.Errorf("%d tasks ran", got)
			}
			again := n.get(receipts[0].ID)
			if receipts, err = n.Submit(t.Context(), reqs...); err != nil || receipts[498].Outcome != engine.OutcomeAlreadyDone || n.get(again.ID).Version != again.Version {
				t.Errorf("of a task that is done: %+v, %v", receipts[498], err)
			}
		})
	}
}

// The engine does not know which task the lost answer was about, and that task has another time since.
func TestATaskThatWasReplacedRunsAtItsNewTimeThoughTheAnswerWasLost(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var j journal
		n, s := startLossy(t, unique(policy.DebounceExisting, nil), handle("x", j.work(0)))
		began := time.Now()
		id := n.submit(engine.Request{Type: "x", Key: "k", Payload: []byte("old"), At: began.Add(10 * time.Hour)})
		s.answer(func(_, swapped int) bool { return swapped > 0 }, nil)
		if _, err := n.Submit(t.Context(), engine.Request{Type: "x", Key: "k", Payload: []byte("new"), At: began.Add(time.Hour)}); err == nil {
			t.Fatal("the answer was not lost")
		}
		s.answer(nil, nil)
		time.Sleep(time.Hour + time.Minute)
		if is := n.expect(id, task.Done); !is.StartedAt.Equal(task.Stamp(began.Add(time.Hour))) {
			t.Errorf("it began after %v", is.StartedAt.Sub(began))
		}
		if got := j.payloads(); len(got) != 1 || got[0] != "new" {
			t.Errorf("it ran with %q", got)
		}
	})
}

// A full backlog keeps no request from replacing a task, and a request that frees a key needs a place first.
func TestAFullBacklogRefusesRequestsOfTakenKeysWithoutEffectsUnlessTheyAddNothing(t *testing.T) {
	for name := range submits(nil) {
		inBubble(t, func(t *testing.T) {
			set := unique(policy.DebounceExisting, func(p *policy.Type) { p.MaxBacklog.Max = 2 })
			throttled := set.Types["x"]
			throttled.Unique = policy.Unique{OnConflict: policy.ThrottleNew, Window: time.Minute}
			throttled.MaxBacklog.Max = 1
			set.Types["y"] = throttled
			var j journal
			n := start(t, set, map[string]task.Handler{"x": task.HandlerFunc(j.work(0)), "y": task.HandlerFunc(j.work(0))})
			submit, later := submits(n)[name], time.Now().Add(100*time.Hour)
			a := n.submit(engine.Request{Type: "x", Key: "a", At: later})
			b := n.submit(engine.Request{Type: "x", Key: "b", At: later})
			ended := n.end(n.submit(engine.Request{Type: "y", Key: "ended"}))
			n.submit(engine.Request{Type: "y", At: later})
			time.Sleep(time.Hour)
			replace := engine.Request{Type: "x", Key: "a", Payload: []byte("new"), At: later}
			for _, other := range []engine.Request{{Type: "x", Key: "c", At: later}, {Type: "y", Key: "ended", At: later}} {
				if _, err := submit(replace, other); !errors.Is(err, engine.ErrBacklog) {
					t.Errorf("%s: with %s: %v", name, other.Key, err)
				}
				if is := n.get(a); is.Version != 1 {
					t.Errorf("%s: the task is at version %d after a refused call", name, is.Version)
				}
				if is := n.get(ended.ID); is.Key != "ended" || is.Version != ended.Version {
					t.Errorf("%s: a refused call has freed the key: %+v", name, is)
				}
			}
			receipts, err := submit(replace, engine.Request{Type: "x", Key: "b", Payload: []byte("new"), At: later})
			if err != nil || receipts[0].Outcome != engine.OutcomeReplaced || receipts[1].Outcome != engine.OutcomeReplaced {
				t.Errorf("%s: got %+v, %v", name, receipts, err)
			}
			for _, id := range []task.ID{a, b} {
				if is := n.get(id); is.Version != 2 || string(is.Payload) != "new" {
					t.Errorf("%s: the task is %+v", name, is)
				}
			}
		})
	}
}
