package enginetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/storagetest"
	"github.com/taskengine/taskengine/task"
)

var afterScenarios = []scenario{
	{"a task runs after others that exist, when all of them are done", runsAfter},
	{"a task that runs after others counts those that have ended before", runsAfterEnded},
	{"a task is cancelled if one after which it is to run fails or is cancelled, and so are those after it", cancelsAfter},
	{"a task that runs after others tells of its end, however it ends", tellsHoweverItEnds},
	{"a request is refused that is to run after what it cannot", refusesAfter},
	{"a request with after that adds no task changes none", submitsTakenAfter},
	{"a transaction adds tasks that run after others if and only if it commits", afterByTx},
	{"the end of an attempt adds tasks that run after others", afterByAttempts},
	{"an attempt that may follow some types only has no task run after others, and learns nothing of them", followsSomeTypes},
	{"no end is lost, though tasks end while others are submitted to run after them", func(n *node) { racesAfter(n, nil) }},
	{"no end is lost, though the store does not say whether it failed", func(n *node) { racesAfter(n, newWeather(4, unsaid)) }},
}

func after(id ...task.ID) engine.Request { return engine.Request{Type: "late", After: id} }

func runsAfter(n *node) {
	gate := make(chan struct{})
	var mu sync.Mutex
	var woken []string
	n.start(types(10, nil, "held", "late"), map[string]handle{"held": until(gate), "late": func(_ context.Context, t *task.Task) ([]byte, error) {
		mu.Lock()
		defer mu.Unlock()
		woken = append(woken, t.Woken().By.String())
		return nil, nil
	}})
	first := n.submit(engine.Request{Type: "held"}, engine.Request{Type: "held", OrderingKey: "o"})
	second := n.submit(after(first[0]), after(first...), engine.Request{Type: "late", After: first[:1], OrderingKey: "o", Key: "k"})
	third := n.submit(after(append(slices.Clone(second), first[0])...))[0]
	for _, id := range append(second, third) {
		got := n.get(id)
		if got.State != task.Waiting || !slices.Equal(got.Awaits(), []string{task.AfterSet}) || got.Attempt != 0 {
			n.Errorf("before the others have ended, it is %v and waits for %v", got.State, got.Awaits())
		}
		_, reasons, err := n.Why(n.ctx, id)
		if err != nil || len(reasons) != 1 || reasons[0].Code != engine.CodeAfter || !slices.Contains(reasons[0].Holders, first[0]) ||
			!strings.Contains(reasons[0].Text, first[0].String()) || reasons[0].Max != len(got.Children.Set(task.AfterSet).Tasks()) {
			n.Errorf("why it does not run: %+v, %v", reasons, err)
		}
	}
	if got := n.get(first[0]).Children.Set(task.FollowersSet).Tasks(); !slices.Equal(got, append(slices.Clone(second), third)) {
		n.Errorf("the first is followed by %v, want %v and %v", got, second, third)
	}
	close(gate)
	n.ranOnce(append(second, third)...)
	ended := n.get(third)
	for _, id := range second {
		if t := n.get(id); t.UpdatedAt.After(ended.StartedAt) {
			n.Errorf("%v was done at %v, and one after it has started at %v", id, t.UpdatedAt, ended.StartedAt)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if !slices.Equal(woken, make([]string, 4)) {
		n.Errorf("the handlers were woken by %q", woken)
	}
	n.noSignalsOnTheWay()
}

func runsAfterEnded(n *node) {
	n.start(types(10, func(p *policy.Type) { p.Retry.Fails = true }, "ok", "bad", "late"), map[string]handle{
		"ok": done, "late": done, "bad": func(context.Context, *task.Task) ([]byte, error) { return nil, task.Permanent(errNo) },
	})
	ids := n.submit(engine.Request{Type: "ok"}, engine.Request{Type: "bad"})
	n.expect(ids[0], task.Done)
	n.expect(ids[1], task.Failed)
	anyEnd := after(ids...)
	anyEnd.AfterAny = true
	got := n.submit(after(ids[0]), after(ids...), anyEnd)
	n.ranOnce(got[0], got[2])
	if t := n.expect(got[1], task.Cancelled); t.Attempt != 0 || !strings.Contains(t.LastError, ids[1].String()) || !strings.Contains(t.LastError, "failed") {
		n.Errorf("it was run %d times, and its error is %q", t.Attempt, t.LastError)
	}
	n.noSignalsOnTheWay()
}

func cancelsAfter(n *node) {
	set := types(10, nil, "held", "late", "forgotten")
	p := set.Types["forgotten"]
	p.Retention.Cancelled = 0
	set.Types["forgotten"] = p
	n.start(set, map[string]handle{"held": until(make(chan struct{})), "late": done, "forgotten": done})
	first := n.submit(engine.Request{Type: "held"}, engine.Request{Type: "held", At: time.Now().Add(time.Hour)})
	second := n.submit(after(first[0]), engine.Request{Type: "forgotten", After: first})
	third := n.submit(after(second[0]), after(second[1]), engine.Request{Type: "late", After: second, AfterAny: true})
	fourth := n.submit(after(third[0], third[1]))[0]
	for i, id := range first {
		if _, err := n.Cancel(n.ctx, task.Ref{ID: id}, "not wanted"); err != nil {
			n.Fatalf("cancel %d: %v", i, err)
		}
	}
	for _, id := range []task.ID{second[0], third[0], third[1], fourth} {
		if t := n.expect(id, task.Cancelled); t.Attempt != 0 || !strings.Contains(t.LastError, "cancelled") {
			n.Errorf("it was run %d times, and its error is %q", t.Attempt, t.LastError)
		}
	}
	n.ranOnce(third[2])
	if _, err := n.store.Get(n.ctx, second[1]); !errors.Is(err, task.ErrNotFound) {
		n.Errorf("one of a type that keeps none that were cancelled: %v", err)
	}
	n.noSignalsOnTheWay()
}

// tellsHoweverItEnds has a task run after one that ends in each of the ways that the engine has.
func tellsHoweverItEnds(n *node) {
	set := types(10, nil, "held", "late", "gone", "remembered", "finished", "failing")
	edit := func(name string, fn func(*policy.Type)) {
		p := set.Types[name]
		fn(&p)
		set.Types[name] = p
	}
	edit("gone", func(p *policy.Type) { p.Retention.Done = 0 })
	edit("remembered", func(p *policy.Type) { p.Retention.Done, p.Unique.Remember = 0, time.Hour })
	edit("failing", func(p *policy.Type) { p.Retry.Fails = true })
	gate := make(chan struct{})
	n.start(set, map[string]handle{
		"held": until(gate), "late": done, "gone": until(gate), "remembered": until(gate),
		"failing": func(ctx context.Context, _ *task.Task) ([]byte, error) {
			_, _ = until(gate)(ctx, nil)
			return nil, task.Permanent(errNo)
		},
		"finished": func(ctx context.Context, _ *task.Task) ([]byte, error) {
			_, _ = until(gate)(ctx, nil)
			return nil, n.store.Update(ctx, func(tx storage.Tx) error { return engine.FinishTx(ctx, tx, nil) })
		},
	})
	names := []string{"held", "gone", "remembered", "finished", "failing", "erased"}
	var firsts, lates []task.ID
	for _, name := range names {
		r := engine.Request{Type: name, Key: "k " + name}
		if name == "erased" {
			r.Type = "held"
		}
		firsts = append(firsts, n.submit(r)[0])
		lates = append(lates, n.submit(engine.Request{Type: "late", After: firsts[len(firsts)-1:], AfterAny: name == "failing" || name == "erased"})[0])
	}
	n.eventually("all run", func() bool {
		return !slices.ContainsFunc(firsts, func(id task.ID) bool { return n.get(id).State != task.Processing })
	})
	if _, err := n.Fail(n.ctx, task.Ref{ID: firsts[5]}, "no"); err != nil {
		n.Error(err)
	}
	close(gate)
	n.ranOnce(lates...)
	n.noSignalsOnTheWay()
}

func refusesAfter(n *node) {
	n.start(types(10, nil, "held", "late"), map[string]handle{"held": until(make(chan struct{})), "late": done})
	there := n.submit(engine.Request{Type: "held"})[0]
	own := engine.Request{ID: task.NewIDs([32]byte{7}).Next(time.Now()), Type: "late"}
	own.After = []task.ID{own.ID}
	at, many, children, only, limited := after(there), after(), after(there), after(), after(there)
	at.At, only.AfterAny, limited.MayFollow = time.Now(), true, func(string) bool { return true }
	for i := range task.MaxAfter + 1 {
		many.After = append(many.After, task.ID{1, 2, 3, byte(i)})
	}
	children.Children = &task.NewChildren{Sets: []task.ChildRequests{{Name: "c"}}}
	parent := withChildren(engine.Request{}, after(there))
	parent.Type = "late"
	missing := task.NewIDs([32]byte{8}).Next(time.Now())
	for why, r := range map[string]engine.Request{
		missing.String() + ", after which it is to run, is not in the store": after(there, missing),
		"the id of the task itself":  own,
		"twice":                      after(there, there),
		"an id that is zero":         after(task.ID{}),
		"belongs to the engine":      after(task.ReservedID("some")),
		"it has a time, and after":   at,
		"after has 101 tasks":        many,
		"it has children, and after": children,
		"after names no task":        only,
		"it has MayFollow":           limited,
		`child 0 of "c" has after`:   parent,
	} {
		_, err := n.Submit(n.ctx, engine.Request{Type: "late"}, r)
		if invalid, ok := errors.AsType[*engine.InvalidRequestError](err); !ok || invalid.Index != 1 || !strings.Contains(err.Error(), why) {
			n.Errorf("the error is %v, want %q", err, why)
		}
	}
	if n.countOf("late") != 0 {
		n.Errorf("%d tasks were added", n.countOf("late"))
	}
	for range task.MaxFollowers / task.MaxAfter {
		n.submit(repeat(task.MaxAfter, func(int) engine.Request { return after(there) })...)
	}
	if _, err := n.Submit(n.ctx, after(there)); !errors.Is(err, engine.ErrInvalid) || !strings.Contains(err.Error(), "has 1000 tasks that run after it") {
		n.Errorf("one too many: %v", err)
	}
	if _, err := n.Cancel(n.ctx, task.Ref{ID: there}, "no"); err != nil {
		n.Error(err)
	}
	n.eventually("all are cancelled", func() bool {
		got, err := n.store.(storage.Inspector).Count(n.ctx, storage.Filter{Types: []string{"late"}, States: []task.State{task.Cancelled}})
		all := int64(0)
		for _, k := range got {
			all += k
		}
		return err == nil && all == task.MaxFollowers
	})
	n.noSignalsOnTheWay()
}

func submitsTakenAfter(n *node) {
	set := types(10, nil, "held", "late", "replaced")
	p := set.Types["replaced"]
	p.Unique.OnConflict = policy.ReplaceExisting
	p.Retention.Done = 0
	set.Types["replaced"] = p
	gate := make(chan struct{})
	n.start(set, map[string]handle{"held": until(gate), "late": done, "replaced": done})
	first := n.submit(engine.Request{Type: "held"})[0]
	soon := engine.Request{Type: "replaced", Key: "k", At: time.Now().Add(time.Hour)}
	followed := n.submit(soon)[0]
	late := engine.Request{ID: task.NewIDs([32]byte{9}).Next(time.Now()), Type: "late", Key: "late", After: []task.ID{followed}}
	n.submit(late)
	if got, err := n.Submit(n.ctx, late); err != nil || got[0].Created || len(n.get(followed).Children.Set(task.FollowersSet).Tasks()) != 1 {
		n.Errorf("the same request again: %+v, %v", got, err)
	}
	soon.After, soon.At = []task.ID{first}, time.Time{}
	if got, err := n.Submit(n.ctx, soon); err != nil || got[0].Created || got[0].Outcome != engine.OutcomeExisting {
		n.Errorf("a request with after and a taken key: %+v, %v", got, err)
	}
	if got := n.get(first).Children; got != nil {
		n.Errorf("the task after which it was to run has %+v", got)
	}
	soon.After = nil
	if got, err := n.Submit(n.ctx, soon); err != nil || got[0].Created || got[0].Outcome != engine.OutcomeReplaced {
		n.Errorf("a request that replaces a task after which another runs: %+v, %v", got, err)
	}
	if _, err := n.Edit(n.ctx, task.Ref{ID: followed}, engine.Edit{At: new(time.Now())}); err != nil {
		n.Error(err)
	}
	n.ranOnce(late.ID)
	if _, err := n.store.Get(n.ctx, followed); !errors.Is(err, task.ErrNotFound) {
		n.Errorf("the first is still there: %v", err)
	}
	if got, err := n.Submit(n.ctx, late); err != nil || got[0].Created || got[0].ID != late.ID {
		n.Errorf("the request again, when the task after which it ran is gone: %+v, %v", got, err)
	}
	late.ID, late.Key = task.ID{}, "other"
	if _, err := n.Submit(n.ctx, late); !errors.Is(err, engine.ErrNoSuchTask) || !errors.Is(err, engine.ErrInvalid) {
		n.Errorf("another request: %v", err)
	}
	close(gate)
	n.wait(first)
}

func afterByTx(n *node) {
	gate := make(chan struct{})
	n.start(types(10, nil, "held", "late"), map[string]handle{"held": until(gate), "late": done})
	first := n.submit(engine.Request{Type: "held"})[0]
	submit := func(fails error) (receipts []engine.Receipt, err error) {
		err = n.store.Update(n.ctx, func(tx storage.Tx) error {
			var err error
			if receipts, err = n.opened().SubmitTx(n.ctx, tx, after(first)); err != nil {
				return err
			}
			return fails
		})
		return receipts, err
	}
	if _, err := submit(errNo); !errors.Is(err, errNo) {
		n.Fatalf("a transaction that is rolled back: %v", err)
	}
	if got := n.get(first); n.countOf("late") != 0 || got.Children != nil {
		n.Errorf("it has added %d tasks, and the other one has %+v", n.countOf("late"), got.Children)
	}
	got, err := submit(nil)
	if err != nil {
		n.Fatal(err)
	}
	if t := n.get(got[0].ID); t.State != task.Waiting {
		n.Errorf("it is %v", t.State)
	}
	close(gate)
	n.ranOnce(got[0].ID)
}

func afterByAttempts(n *node) {
	gate := make(chan struct{})
	first := task.NewIDs([32]byte{3}).Next(time.Now())
	late := engine.Request{ID: task.NewIDs([32]byte{4}).Next(time.Now()), Type: "late", After: []task.ID{first}}
	n.start(types(10, func(p *policy.Type) { p.Retry.Max = 1 }, "held", "late", "adds", "taken", "wrong"), map[string]handle{
		"held": until(gate), "late": done,
		"taken": func(context.Context, *task.Task) ([]byte, error) {
			return nil, task.Again(time.Time{}, task.WithTasks(engine.Request{Type: "late", Key: "k", After: late.After}))
		},
		"adds": func(context.Context, *task.Task) ([]byte, error) {
			return nil, task.Again(time.Time{}, task.WithTasks(late))
		},
		"wrong": func(context.Context, *task.Task) ([]byte, error) {
			return nil, task.Again(time.Time{}, task.WithTasks(after(task.NewIDs([32]byte{5}).Next(time.Now()))))
		},
	})
	n.submit(engine.Request{ID: first, Type: "held"}, engine.Request{Type: "late", Key: "k", At: time.Now().Add(time.Hour)})
	adds := n.submit(engine.Request{Type: "adds"}, engine.Request{Type: "wrong"}, engine.Request{Type: "taken"})
	n.expect(adds[0], task.Done)
	n.expect(adds[2], task.Done)
	if t := n.expect(adds[1], task.Error); !strings.Contains(t.LastError, "is not in the store") {
		n.Errorf("the error is %q", t.LastError)
	}
	n.noSignalsOnTheWay()
	if got := n.get(first).Children.Set(task.FollowersSet).Tasks(); !slices.Equal(got, []task.ID{late.ID}) {
		n.Errorf("the first is followed by %v, and was to be by the task that was added, %v", got, late.ID)
	}
	if t := n.get(late.ID); t.State != task.Waiting {
		n.Errorf("it is %v", t.State)
	}
	close(gate)
	n.ranOnce(late.ID)
	n.noSignalsOnTheWay()
}

// followsSomeTypes has attempts add tasks that may run after tasks of the type late only. The payload names the task before, and the
// header the key of the task that is added.
func followsSomeTypes(n *node) {
	ids := task.NewIDs([32]byte{6})
	hidden, missing, own := ids.Next(time.Now()), ids.Next(time.Now()), ids.Next(time.Now())
	gate := make(chan struct{})
	var refusals sync.Map // texts, by the id of the task that has asked
	n.start(types(10, func(p *policy.Type) { p.Retry.Max = 1 }, "held", "late", "adds"), map[string]handle{
		"held": until(gate), "late": done,
		"adds": func(ctx context.Context, t *task.Task) ([]byte, error) {
			r := after(task.ID(t.Payload))
			r.Key, r.MayFollow = t.Headers["key"], func(typ string) bool { return typ == "late" }
			refused, err := task.CheckTasks(ctx, r)
			if err != nil {
				return nil, err
			}
			for _, one := range refused {
				refusals.Store(t.ID, one.Text)
			}
			return nil, task.Again(time.Time{}, task.WithTasks(r))
		},
	})
	n.submit(engine.Request{ID: hidden, Type: "held"}, engine.Request{ID: own, Type: "late", Key: "taken", At: time.Now().Add(time.Hour)})
	for _, key := range []string{"", "taken"} {
		var said []string
		for _, id := range []task.ID{hidden, missing} {
			t := n.expect(n.submit(engine.Request{Type: "adds", Payload: id[:], Headers: map[string]string{"key": key}})[0], task.Error)
			refusal, _ := refusals.Load(t.ID)
			said = append(said, strings.ReplaceAll(fmt.Sprint(t.LastError, refusal), id.String(), "ID"))
		}
		if said[0] != said[1] || strings.Count(said[0], "is not in the store, or is of a type") != 2 {
			n.Errorf("with the key %q: after a task of another type it says %q, and after one that is not there %q", key, said[0], said[1])
		}
		n.expect(n.submit(engine.Request{Type: "adds", Payload: own[:], Headers: map[string]string{"key": key}})[0], task.Done)
	}
	n.noSignalsOnTheWay()
	if got := n.get(hidden).Children; got != nil {
		n.Errorf("the task of another type has %+v", got)
	}
	if got := n.get(own).Children.Set(task.FollowersSet).Tasks(); len(got) != 1 || n.get(got[0]).State != task.Waiting {
		n.Errorf("the task of the type is followed by %v", got)
	}
	close(gate)
	n.wait(hidden)
}

// racesAfter has tasks end in several ways while others are submitted to run after them. Each of these is to end as those say.
func racesAfter(n *node, w *weather) {
	const rounds = 60
	if w != nil {
		n.config.Store = storagetest.Faulty(repeating{n.store}, w.decide)
	}
	set := types(20, untilDone, "kept", "gone", "failing", "late")
	for name, fn := range map[string]func(*policy.Type){
		"gone": func(p *policy.Type) { p.Retention.Done = 0 }, "failing": func(p *policy.Type) { p.Retry.Fails = true },
	} {
		p := set.Types[name]
		fn(&p)
		set.Types[name] = p
	}
	n.start(set, map[string]handle{
		"kept": done, "gone": done, "late": done,
		"failing": func(context.Context, *task.Task) ([]byte, error) { return nil, task.Permanent(errNo) },
	})
	if w != nil {
		w.quiet.Store(false)
	}
	ids := task.NewIDs([32]byte{byte(rounds)})
	var mu sync.Mutex
	wants := make(map[task.ID]task.State) // of the tasks that were accepted
	var all sync.WaitGroup
	for i := range rounds {
		rng := rand.New(rand.NewPCG(11, uint64(i)))
		var firsts []task.ID
		fails := false
		for range 1 + rng.IntN(3) {
			typ := []string{"kept", "kept", "gone", "failing"}[rng.IntN(4)]
			if typ == "gone" && w != nil {
				typ = "kept" // the node finds the carriers within half a minute
			}
			r := engine.Request{ID: ids.Next(time.Now()), Type: typ}
			if firsts = append(firsts, r.ID); rng.IntN(3) == 0 {
				r.At = time.Now().Add(time.Duration(rng.IntN(5)) * time.Millisecond)
			}
			fails = fails || typ == "failing"
			n.submitUntil(r)
		}
		late := engine.Request{ID: ids.Next(time.Now()), Type: "late", After: firsts, AfterAny: rng.IntN(3) == 0}
		all.Go(func() {
			if !n.submitUntil(late) {
				return // one was gone already
			}
			mu.Lock()
			defer mu.Unlock()
			wants[late.ID] = task.Done
			if fails && !late.AfterAny {
				wants[late.ID] = task.Cancelled
			}
		})
	}
	all.Wait()
	if w != nil {
		w.clear()
	}
	for id, want := range wants {
		n.expect(id, want)
	}
	n.noSignalsOnTheWay()
	n.Logf("%d of %d tasks were accepted", len(wants), rounds)
}

// submitUntil submits a request until the store says that it succeeded. It returns false if it is to run after a task that is gone.
func (n *node) submitUntil(r engine.Request) bool {
	for {
		_, err := n.Submit(n.ctx, r)
		switch {
		case err == nil:
			return true
		case errors.Is(err, engine.ErrNoSuchTask):
			return false
		case errors.Is(err, engine.ErrInvalid) || n.ctx.Err() != nil:
			n.Error(fmt.Errorf("submit %v: %w", r.ID, err))
			return false
		}
	}
}
