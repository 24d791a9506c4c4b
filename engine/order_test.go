package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// act is the work of a handler with a task after the second that each attempt takes. number is the number of its call for the
// payload, from 1 on.
type act func(ctx context.Context, number int) ([]byte, error)

// ordered is a node with the types x and y. Their tasks do the act of their payload.
type ordered struct {
	*node
	j    journal
	acts map[string]act
	ids  map[string]task.ID // by payload
}

// startOrdered starts a node that has 100 slots. change may be nil.
func startOrdered(t *testing.T, change func(*policy.Type), acts map[string]act) *ordered {
	t.Helper()
	o := &ordered{acts: acts, ids: make(map[string]task.ID)}
	set := one("x", func(p *policy.Type) {
		p.Retry.Max, p.Retry.Backoff = 2, policy.Backoff{Kind: policy.Fixed, Delays: []time.Duration{time.Minute}}
		if change != nil {
			change(p)
		}
	})
	set.Types["y"] = set.Types["x"]
	work := o.j.work(time.Second)
	calls := make(map[string]int) // guarded by o.j.mu
	run := task.HandlerFunc(func(ctx context.Context, tk *task.Task) ([]byte, error) {
		out, err := work(ctx, tk)
		do := o.acts[string(tk.Payload)]
		if err != nil || do == nil {
			return out, err
		}
		o.j.mu.Lock()
		calls[string(tk.Payload)]++
		number := calls[string(tk.Payload)]
		o.j.mu.Unlock()
		return do(ctx, number)
	})
	o.node = start(t, set, map[string]task.Handler{"x": run, "y": run})
	return o
}

// request returns a request of the ordering key k. Its type is y if the payload is an upper-case letter.
func request(payload string) engine.Request {
	typ := "x"
	if strings.ToUpper(payload) == payload {
		typ = "y"
	}
	return engine.Request{Type: typ, OrderingKey: "k", Payload: []byte(payload)}
}

// add submits one task for each word, in one call.
func (o *ordered) add(payloads string) {
	o.t.Helper()
	var reqs []engine.Request
	for p := range strings.FieldsSeq(payloads) {
		reqs = append(reqs, request(p))
	}
	o.submitAll(reqs...)
}

func (o *ordered) submitAll(reqs ...engine.Request) {
	o.t.Helper()
	receipts, err := o.Submit(o.t.Context(), reqs...)
	if err != nil {
		o.t.Fatal(err)
	}
	for i, r := range receipts {
		o.ids[string(reqs[i].Payload)] = r.ID
	}
}

// ran fails the test unless these attempts began in this order, with never two of them at once.
func (o *ordered) ran(want string) {
	o.t.Helper()
	synctest.Wait()
	o.j.mu.Lock()
	most := o.j.most
	o.j.mu.Unlock()
	if got := strings.Join(o.j.payloads(), " "); got != want || most > 1 {
		o.t.Errorf("%s began, %d at once; want %s", got, most, want)
	}
}

// are fails the test unless tasks have these states and turns.
func (o *ordered) are(want ...string) {
	o.t.Helper()
	synctest.Wait()
	names := map[task.Turn]string{task.Head: "head", task.Behind: "behind", task.Unordered: "-"}
	for _, w := range want {
		payload, rest, _ := strings.Cut(w, " ")
		if t := o.get(o.ids[payload]); t.State.String()+" "+names[t.Turn] != rest {
			o.t.Errorf("%s is %v %s (%s); want %s", payload, t.State, names[t.Turn], t.LastError, rest)
		}
	}
}

func fails(context.Context, int) ([]byte, error) { return nil, task.Permanent(errNo) }

// failsOnce fails the first attempt.
func failsOnce(_ context.Context, number int) ([]byte, error) {
	if number == 1 {
		return nil, errNo
	}
	return nil, nil
}

func TestTasksOfAnOrderingKeyRunOneAtATimeInTheOrderOfTheirSubmissionAcrossTypes(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		o := startOrdered(t, nil, nil)
		o.add("a B c")
		o.add("D")
		time.Sleep(1500 * time.Millisecond)
		o.add("e")
		o.are("a done -", "B processing head", "c submitted behind", "D submitted behind", "e submitted behind")
		time.Sleep(time.Minute)
		o.ran("a B c D e")
		o.are("e done -")
	})
}

func TestTasksOfDifferentOrderingKeysDoNotWaitForEachOther(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		o := startOrdered(t, nil, nil)
		begin := time.Now()
		for _, key := range []string{"one", "two", "", ""} {
			r := request("a")
			r.OrderingKey = key
			o.submitAll(r, r)
		}
		synctest.Wait()
		o.j.mu.Lock()
		running := o.j.running
		o.j.mu.Unlock()
		if running != 6 {
			t.Errorf("%d run at once, want one of each key and the four without", running)
		}
		if err := o.WaitType(t.Context(), "x"); err != nil || time.Since(begin) > 3*time.Second {
			t.Errorf("all took %v: %v", time.Since(begin), err)
		}
	})
}

func TestPriorityDoesNotChangeTheOrderOfAKey(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		o := startOrdered(t, nil, nil)
		first, urgent := request("a"), request("b")
		first.Priority, urgent.Priority = new(uint8(9)), new(uint8(0))
		o.submitAll(first, urgent)
		time.Sleep(time.Minute)
		o.ran("a b")
	})
}

func TestAnUrgentTaskBehindAHeadIsNotOvertakenByTasksOfOtherKeysIfTheTypeInherits(t *testing.T) {
	// The store gives its slot to another task before the next head of the key is known.
	for inherit, want := range map[bool]string{true: "gate head other1 urgent other2", false: "gate other1 other2 head urgent"} {
		t.Run(fmt.Sprint("inherit ", inherit), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				o := startOrdered(t, func(p *policy.Type) {
					p.Concurrency, p.Ordering.Inherit = 1, inherit
				}, nil)
				o.submitAll(engine.Request{Type: "x", Payload: []byte("gate")})
				add := func(payload, key string, priority uint8) {
					o.submitAll(engine.Request{Type: "x", OrderingKey: key, Payload: []byte(payload), Priority: &priority})
				}
				add("head", "k", 8)
				add("other1", "", 4)
				add("other2", "m", 5)
				add("urgent", "k", 0)
				time.Sleep(time.Minute)
				o.ran(want)
			})
		})
	}
}

func TestACancelledUrgentTaskLeavesTheHeadItsOwnPriority(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		o := startOrdered(t, func(p *policy.Type) { p.Concurrency, p.Ordering.Inherit = 1, true }, nil)
		o.submitAll(engine.Request{Type: "x", Payload: []byte("gate")})
		add := func(payload, key string, priority uint8) {
			o.submitAll(engine.Request{Type: "x", OrderingKey: key, Payload: []byte(payload), Priority: &priority})
		}
		add("head", "k", 8)
		add("other", "", 4)
		add("urgent", "k", 0)
		if _, err := o.Cancel(t.Context(), task.Ref{ID: o.ids["urgent"]}, ""); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		o.ran("gate other head")
	})
}

func TestManyTasksOfAKeyInOneSubmitRunInOrder(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		o := startOrdered(t, nil, nil)
		var want []string
		for i := range 500 {
			want = append(want, fmt.Sprintf("t%03d", i))
		}
		o.add(strings.Join(want, " "))
		time.Sleep(time.Hour)
		o.ran(strings.Join(want, " "))
	})
}

func TestARetryASnoozeAndAHandBackKeepTheirPlaceInTheOrder(t *testing.T) {
	for name, first := range map[string]error{
		"a retry": errNo, "a snooze": task.Snooze(time.Minute), "a hand back": task.ErrUnavailable, "an interruption": task.ErrInterrupted,
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				o := startOrdered(t, nil, map[string]act{"b": func(_ context.Context, number int) ([]byte, error) {
					if number == 1 {
						return nil, first
					}
					return nil, nil
				}})
				o.add("a b c")
				time.Sleep(2 * time.Second)
				o.are("c submitted behind")
				time.Sleep(10 * time.Minute)
				o.ran("a b b c")
			})
		})
	}
}

func TestATaskWithoutAttemptsLeftStopsItsKeyUntilAPersonDecides(t *testing.T) {
	for name, c := range map[string]struct {
		decide func(o *ordered, id task.ID) error
		runs   string
	}{
		"to resume it": {func(o *ordered, id task.ID) error {
			o.acts["b"] = nil
			_, err := o.Resume(o.t.Context(), task.Ref{ID: id})
			return err
		}, "a b b b c"},
		"to fail it": {func(o *ordered, id task.ID) error {
			_, err := o.Fail(o.t.Context(), task.Ref{ID: id}, "no use")
			return err
		}, "a b b c"},
		"to cancel it": {func(o *ordered, id task.ID) error {
			_, err := o.Cancel(o.t.Context(), task.Ref{ID: id}, "no use")
			return err
		}, "a b b c"},
		"to resume the key": {func(o *ordered, _ task.ID) error {
			o.acts["b"] = nil
			_, err := o.ResumeKey(o.t.Context(), "k")
			return err
		}, "a b b b c"},
		"to skip it": {func(o *ordered, _ task.ID) error {
			_, err := o.SkipKey(o.t.Context(), "k", "no use")
			return err
		}, "a b b c"},
		"to reschedule it": {func(o *ordered, id task.ID) error {
			o.acts["b"] = nil
			_, err := o.Reschedule(o.t.Context(), task.Ref{ID: id}, time.Now().Add(time.Minute))
			return err
		}, "a b b c b"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				o := startOrdered(t, nil, map[string]act{"b": func(context.Context, int) ([]byte, error) { return nil, errNo }})
				o.add("a b c")
				time.Sleep(6 * time.Hour)
				o.ran("a b b")
				o.are("b error head", "c submitted behind")
				if err := c.decide(o, o.ids["b"]); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Hour)
				o.ran(c.runs)
				o.are("c done -")
			})
		})
	}
}

func TestAnErrorOfATypeThatContinuesLeavesItsSeat(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		o := startOrdered(t, func(p *policy.Type) { p.Ordering.OnExhausted = policy.Continue }, map[string]act{"b": fails})
		o.add("a b c")
		time.Sleep(time.Minute)
		o.ran("a b c")
		o.are("b error -", "c done -")
		o.acts["d"] = func(context.Context, int) ([]byte, error) { delete(o.acts, "b"); return nil, nil }
		o.add("d e")
		synctest.Wait()
		if _, err := o.Resume(t.Context(), task.Ref{ID: o.ids["b"]}); err != nil {
			t.Fatal(err)
		}
		o.are("d processing head", "b submitted behind")
		time.Sleep(time.Minute)
		o.ran("a b c d b e") // its seat is before that of e
	})
}

func TestARetryOfATypeThatYieldsTakesTheSeatOfItsNextAttempt(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		o := startOrdered(t, func(p *policy.Type) { p.Ordering.OnRetry = policy.Yield }, map[string]act{"a": failsOnce})
		o.add("a b c")
		time.Sleep(1500 * time.Millisecond)
		o.are("a waiting behind", "b processing head")
		time.Sleep(30 * time.Second)
		o.ran("a b c")
		time.Sleep(28 * time.Second)
		o.submitAll(engine.Request{Type: "x", OrderingKey: "k", Payload: []byte("d"), At: time.Now().Add(time.Hour)})
		o.add("e")
		time.Sleep(2 * time.Hour)
		o.ran("a b c e a d")
	})
}

func TestADelayedTaskTakesItsPlaceAtItsTime(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		o := startOrdered(t, nil, nil)
		later := func(payload string, in time.Duration) engine.Request {
			r := request(payload)
			r.At = time.Now().Add(in)
			return r
		}
		o.submitAll(later("late", 90*time.Second), later("soon", 30*time.Second))
		o.add("now")
		time.Sleep(10 * time.Second)
		o.ran("now")
		o.are("soon waiting behind", "late waiting behind")
		time.Sleep(30 * time.Second)
		o.ran("now soon")
		time.Sleep(time.Minute)
		o.ran("now soon late")
	})
}

func TestACancelledTaskHoldsNobodyBack(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		o := startOrdered(t, nil, nil)
		o.add("a b c d")
		synctest.Wait()
		for _, payload := range []string{"c", "a"} { // one behind, and the one that runs
			if _, err := o.Cancel(t.Context(), task.Ref{ID: o.ids[payload]}, "no"); err != nil {
				t.Fatal(err)
			}
		}
		o.are("b processing head", "d submitted behind")
		time.Sleep(time.Minute)
		o.j.mu.Lock()
		o.j.most = 1 // the handler of a returned after b had begun
		o.j.mu.Unlock()
		o.ran("a b d")
	})
}

func TestATaskWithoutATimeHoldsNoOtherOfItsKeyBack(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		o := startOrdered(t, nil, nil)
		if err := o.Pause(t.Context(), "x"); err != nil {
			t.Fatal(err)
		}
		o.add("a b c d e")
		never := func(payload string) {
			t.Helper()
			if _, err := o.Edit(t.Context(), task.Ref{ID: o.ids[payload]}, engine.Edit{At: new(time.Time)}); err != nil {
				t.Fatal(err)
			}
		}
		never("a") // the head
		never("c") // one behind
		o.are("b submitted head", "d submitted behind", "e submitted behind", "a waiting behind", "c waiting behind")
		if err := o.Unpause(t.Context(), "x"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		o.ran("b d e")
		if _, err := o.Resume(t.Context(), task.Ref{ID: o.ids["c"]}); err != nil {
			t.Fatal(err)
		}
		o.add("f")
		if _, err := o.Edit(t.Context(), task.Ref{ID: o.ids["a"]}, engine.Edit{At: new(time.Now())}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		o.ran("b d e c a f") // a and f are ready at the same time, and a was added before
	})
}

func TestATaskThatIsRescheduledTakesAnotherSeat(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		o := startOrdered(t, nil, nil)
		if err := o.Pause(t.Context(), "x"); err != nil {
			t.Fatal(err)
		}
		o.add("a b c d")
		o.are("a submitted head")
		for payload, in := range map[string]time.Duration{"a": 30 * time.Second, "c": -time.Hour} {
			if _, err := o.Reschedule(t.Context(), task.Ref{ID: o.ids[payload]}, time.Now().Add(in)); err != nil {
				t.Fatal(err)
			}
		}
		o.are("a waiting behind", "c submitted head", "b submitted behind")
		if err := o.Unpause(t.Context(), "x"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		o.ran("c b d a")
	})
}

func TestATaskThatExpiresBehindTheHeadStopsItsKeyWhenItsTurnComes(t *testing.T) {
	for name, c := range map[string]struct {
		ordering policy.Ordering
		are      []string
		runs     string
	}{
		"with halt":     {policy.Ordering{}, []string{"b error head", "c submitted behind"}, "a"},
		"with continue": {policy.Ordering{OnExhausted: policy.Continue}, []string{"b error -", "c done -"}, "a c"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				o := startOrdered(t, func(p *policy.Type) { p.Ordering = c.ordering }, map[string]act{
					"a": func(context.Context, int) ([]byte, error) { time.Sleep(time.Minute); return nil, nil },
				})
				b := request("b")
				b.ExpiresAt = time.Now().Add(10 * time.Second)
				o.submitAll(request("a"), b, request("c"))
				time.Sleep(30 * time.Second)
				o.are("a processing head", "c submitted behind")
				if got := o.get(o.ids["b"]); got.State != task.Error {
					t.Errorf("b is %v after its time", got.State)
				}
				time.Sleep(time.Minute)
				o.are(c.are...)
				o.ran(c.runs)
			})
		})
	}
}

func TestTheOrderOfAKeyOutlivesADrainAndARestart(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		o := startOrdered(t, nil, map[string]act{"b": failsOnce})
		o.add("a b c")
		time.Sleep(500 * time.Millisecond)
		o.close() // a ends
		o.are("a done -", "b submitted head", "c submitted behind")
		o.open()
		time.Sleep(1500 * time.Millisecond) // b waits for its second attempt
		o.are("b waiting head")
		o.close()
		o.open()
		time.Sleep(10 * time.Minute)
		o.ran("a b b c")
	})
}

func TestSubmitTxAndFinishTxKeepTheOrderOfAKey(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		o := startOrdered(t, nil, nil)
		added := make(chan []engine.Receipt, 1)
		o.acts = map[string]act{"a": func(ctx context.Context, _ int) ([]byte, error) {
			return nil, o.store.Update(ctx, func(tx storage.Tx) error {
				receipts, err := o.SubmitTx(ctx, tx, request("d"), request("E"))
				if err != nil {
					return err
				}
				added <- receipts
				return engine.FinishTx(ctx, tx, nil)
			})
		}}
		if err := o.store.Update(t.Context(), func(tx storage.Tx) error {
			_, err := o.SubmitTx(t.Context(), tx, request("a"), request("B"))
			return err
		}); err != nil {
			t.Fatal(err)
		}
		o.add("c")
		time.Sleep(time.Minute)
		receipts := <-added
		o.ids["d"], o.ids["E"] = receipts[0].ID, receipts[1].ID
		o.ran("a B c d E")
		o.are("d done -", "E done -")
	})
}

func TestATaskThatRunsAgainLetsThoseThatWaitRunBetween(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		o := startOrdered(t, nil, map[string]act{"a": func(_ context.Context, number int) ([]byte, error) {
			if number == 1 {
				return nil, task.Again(time.Now().Add(time.Minute))
			}
			return nil, nil
		}})
		o.add("a b")
		time.Sleep(time.Hour)
		o.ran("a b a")
	})
}

func TestTheTasksOfAKeyAreListedInTheirOrder(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		o := startOrdered(t, nil, map[string]act{"a": fails})
		o.add("a B c")
		o.submitAll(engine.Request{Type: "x", OrderingKey: "l", Payload: []byte("d")})
		synctest.Wait()
		rows, err := o.Key(t.Context(), "k", nil, 10)
		if err != nil || rows.Head.ID != o.ids["a"] || len(rows.Behind) != 2 || rows.Behind[0].ID != o.ids["B"] || rows.Behind[1].ID != o.ids["c"] {
			t.Errorf("the rows are %+v, %v", rows, err)
		}
		time.Sleep(time.Minute)
		page, err := o.Keys(t.Context(), storage.KeyQuery{States: []task.State{task.Error}, Limit: 10})
		if err != nil || len(page.Keys) != 1 || page.Keys[0].Key != "k" || page.Keys[0].Behind != 2 {
			t.Errorf("the stopped keys are %+v, %v", page, err)
		}
		for name, c := range map[string]struct {
			call func() error
			want error
		}{
			"an unknown key":          {func() error { _, err := o.Key(t.Context(), "none", nil, 10); return err }, task.ErrNotFound},
			"a key whose tasks ended": {func() error { _, err := o.ResumeKey(t.Context(), "l"); return err }, task.ErrNotFound},
			"no key":                  {func() error { _, err := o.Key(t.Context(), "", nil, 10); return err }, engine.ErrInvalid},
		} {
			if err := c.call(); !errors.Is(err, c.want) {
				t.Errorf("%s: %v, want %v", name, err, c.want)
			}
		}
		o.submitAll(engine.Request{Type: "x", OrderingKey: "l", Payload: []byte("d")})
		synctest.Wait()
		if _, err := o.SkipKey(t.Context(), "l", ""); !errors.Is(err, engine.ErrNotAllowed) || !strings.Contains(err.Error(), "is processing") {
			t.Errorf("a head that runs is skipped: %v", err)
		}
	})
}
