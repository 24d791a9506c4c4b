package enginetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/storagetest"
	"github.com/taskengine/taskengine/task"
)

var newChildrenScenarios = []scenario{
	{"a task that is submitted with children runs once, when all have ended", submitsWithChildren},
	{"a task that is submitted with children waits for some of them, until a time, and not at all for none", submitsWaits},
	{"a request that adds no task adds no child, whatever its type says of taken keys", submitsTakenWithChildren},
	{"a request with children that cannot be is refused with all of them", refusesNewChildren},
	{"a full backlog refuses a task with all of its children", refusesChildrenInFull},
	{"a transaction adds tasks with children if and only if it commits", newChildrenByTx},
	{"children are added in several calls, and their parent runs when the last call has closed them", addsMoreChildren},
	{"open children that cannot be are refused, and a task that was woken or has ended takes no more", refusesMoreChildren},
	{"children are added in several calls though the store does not say whether it failed", addsMoreInWeather},
	{"tasks are submitted with children though the store does not say whether it failed", submitsInWeather},
}

// callback returns what it was woken by, and how its children have ended.
func callback(_ context.Context, t *task.Task) ([]byte, error) { return counts(t, "c"), nil }

// withChildren is a request for a parent of children with the name "c".
func withChildren(r engine.Request, children ...engine.Request) engine.Request {
	r.Type, r.Children = "parent", &task.NewChildren{Sets: []task.ChildRequests{{Name: "c", Requests: children}}}
	return r
}

// count returns how many tasks of a type are stored.
func (n *node) countOf(typ string) (all int64) {
	n.Helper()
	got, err := n.store.(storage.Inspector).Count(n.ctx, storage.Filter{Types: []string{typ}})
	if err != nil {
		n.Fatal(err)
	}
	for _, k := range got {
		all += k
	}
	return all
}

func (n *node) expectResult(id task.ID, want string) {
	n.Helper()
	if got := string(n.expect(id, task.Done).Result); got != want {
		n.Errorf("the parent has seen %q, want %q", got, want)
	}
}

func submitsWithChildren(n *node) {
	gate := make(chan struct{})
	var mu sync.Mutex
	ran := 0
	n.start(types(10, nil, "parent", "child", "held"), map[string]handle{"child": done, "held": until(gate), "parent": func(ctx context.Context, t *task.Task) ([]byte, error) {
		mu.Lock()
		defer mu.Unlock()
		ran++
		return callback(ctx, t)
	}})
	child, ordered := engine.Request{Type: "child"}, engine.Request{Type: "child", OrderingKey: "o"}
	r := withChildren(engine.Request{Payload: []byte("p")}, child, child, engine.Request{Type: "held"})
	r.Children.Sets = append(r.Children.Sets, task.ChildRequests{Name: "ordered", Requests: []engine.Request{ordered, ordered}})
	r.Children.Waits = []task.ChildrenWait{{Name: "c"}}
	behind := withChildren(engine.Request{OrderingKey: "o"}, ordered)
	ids := n.submit(r, engine.Request{Type: "child"}, behind)
	n.eventually("two of three have ended", func() bool { return n.get(ids[0]).Children.Set("c").Ended() == 2 })
	if got := n.get(ids[0]); got.State != task.Waiting || got.Attempt != 0 || string(got.Payload) != "p" {
		n.Errorf("with a child that has not ended, the parent is %v, %+v", got.State, got)
	}
	if _, reasons, err := n.Why(n.ctx, ids[0]); err != nil || len(reasons) == 0 {
		n.Errorf("why it does not run: %+v, %v", reasons, err)
	}
	close(gate)
	n.expectResult(ids[0], "children: 3 of 3 done, 0 failed, 0 cancelled")
	n.expectResult(ids[2], "children: 1 of 1 done, 0 failed, 0 cancelled")
	if n.wait(ids[1]); n.countOf("child") != 6 {
		n.Errorf("there are %d children", n.countOf("child"))
	}
	mu.Lock()
	defer mu.Unlock()
	if ran != 2 {
		n.Errorf("the parents have run %d times", ran)
	}
}

func submitsWaits(n *node) {
	gate := make(chan struct{})
	n.start(types(10, nil, "parent", "child", "held"), map[string]handle{"parent": callback, "child": done, "held": until(gate)})
	child, held := engine.Request{Type: "child"}, engine.Request{Type: "held"}
	some, timed, late := withChildren(engine.Request{}, child, held), withChildren(engine.Request{}, held), withChildren(engine.Request{}, held)
	some.Children.Waits = []task.ChildrenWait{{Name: "c", Count: 1}}
	timed.Children.Until, late.Children.Until = time.Now().Add(20*time.Millisecond), time.Now().Add(-time.Hour)
	ids := n.submit(some, timed, late, withChildren(engine.Request{}), withChildren(engine.Request{}, held))
	for i, want := range []string{
		"children: 1 of 2 done, 0 failed, 0 cancelled", "timeout: 0 of 1 done, 0 failed, 0 cancelled",
		"timeout: 0 of 1 done, 0 failed, 0 cancelled", "children: 0 of 0 done, 0 failed, 0 cancelled",
	} {
		n.expectResult(ids[i], want)
	}
	if _, err := n.opened().Resume(n.ctx, task.Ref{ID: ids[4]}); err != nil {
		n.Error(err)
	}
	n.expectResult(ids[4], "user: 0 of 1 done, 0 failed, 0 cancelled")
	close(gate)
}

func submitsTakenWithChildren(n *node) {
	set := types(10, nil, "parent", "child", "held")
	for mode, name := range []string{"keep", "reject", "replace", "debounce", "throttle"} {
		p := set.Types["parent"]
		p.Unique.OnConflict = policy.OnConflict(mode)
		if p.Unique.OnConflict == policy.ThrottleNew {
			p.Unique.Window = time.Hour
		}
		set.Types[name] = p
	}
	gate := make(chan struct{})
	handlers := map[string]handle{"child": done, "held": until(gate)}
	for name := range set.Types {
		if handlers[name] == nil {
			handlers[name] = callback
		}
	}
	n.start(set, handlers)
	held := withChildren(engine.Request{Key: "k"}, engine.Request{Type: "held"})
	repeated := withChildren(engine.Request{ID: task.ID{1, 2, 3, 4}}, engine.Request{Type: "held"})
	parents := []task.ID{n.submit(repeated)[0]}
	for name := range set.Types {
		if name == "child" || name == "held" {
			continue
		}
		held.Type = name
		id := n.submit(held)[0]
		parents = append(parents, id)
		other := withChildren(engine.Request{Key: "k", Payload: []byte("new")}, engine.Request{Type: "child"})
		for other.Type = name; ; other.Children = nil {
			got, err := n.Submit(n.ctx, other)
			rejected := errors.Is(err, engine.ErrExists) && name == "reject"
			if err != nil && !rejected || got[0].Created || got[0].Outcome == engine.OutcomeReplaced {
				n.Errorf("%s: another request gives %+v, %v", name, got, err)
			}
			if other.Children == nil {
				break
			}
		}
		if got := n.get(id); len(got.Payload) > 0 || got.State != task.Waiting {
			n.Errorf("%s: the parent has become %+v", name, got)
		}
	}
	if got, err := n.Submit(n.ctx, repeated); err != nil || got[0].Created || got[0].ID != repeated.ID {
		n.Errorf("the same id again gives %+v, %v", got, err)
	}
	if n.countOf("child") != 0 || n.countOf("held") != int64(len(parents)) {
		n.Errorf("there are %d children of requests that have added no parent, and %d others", n.countOf("child"), n.countOf("held"))
	}
	close(gate)
	for _, id := range parents {
		n.expectResult(id, "children: 1 of 1 done, 0 failed, 0 cancelled")
	}
}

func refusesNewChildren(n *node) {
	n.start(types(10, nil, "parent", "child"), map[string]handle{"parent": callback, "child": done})
	child := engine.Request{Type: "child"}
	two := withChildren(engine.Request{}, child)
	two.Children.Sets = append(two.Children.Sets, task.ChildRequests{Name: "d"})
	other, most := withChildren(engine.Request{}, child), withChildren(engine.Request{}, child)
	other.Children.Waits = []task.ChildrenWait{{Name: "d"}}
	most.Children.Waits = []task.ChildrenWait{{Name: "c", Count: 2}}
	for why, r := range map[string]engine.Request{
		`child 1 of "c" has an id or a key`:   withChildren(engine.Request{}, child, engine.Request{Type: "child", Key: "k"}),
		"have an ordering":                    withChildren(engine.Request{}, child, engine.Request{Type: "child", OrderingKey: "o"}),
		"no name of them":                     {Type: "parent", Children: &task.NewChildren{}},
		"not a name of":                       {Type: "parent", Children: &task.NewChildren{Sets: []task.ChildRequests{{}}}},
		"not said for which":                  two,
		"no such are given":                   other,
		"waits for 2 children":                most,
		"and a time":                          withChildren(engine.Request{At: time.Now()}, child),
		`child 0 of "c": payload has 2000000`: withChildren(engine.Request{}, engine.Request{Type: "child", Payload: make([]byte, 2_000_000)}),
		`child 0 of "c": the request has`:     withChildren(engine.Request{}, withChildren(engine.Request{}, child)),
		"payload has 2000001":                 withChildren(engine.Request{Payload: make([]byte, 2_000_001)}, child),
	} {
		_, err := n.Submit(n.ctx, child, r)
		if invalid, ok := errors.AsType[*engine.InvalidRequestError](err); !ok || invalid.Index != 1 || !strings.Contains(err.Error(), why) {
			n.Errorf("the error is %v, want %q", err, why)
		}
	}
	if n.countOf("parent")+n.countOf("child") != 0 {
		n.Errorf("there are %d parents, %d children", n.countOf("parent"), n.countOf("child"))
	}
	again := task.ID{1, 2, 3, 4}
	n.expect(n.submit(withChildren(engine.Request{ID: again}, child))[0], task.Done)
	if _, err := n.store.Delete(n.ctx, n.get(again).Ref()); err != nil {
		n.Fatal(err)
	}
	if _, err := n.Submit(n.ctx, withChildren(engine.Request{ID: again}, child)); !errors.Is(err, engine.ErrInvalid) || !strings.Contains(fmt.Sprint(err), "had this id before") {
		n.Errorf("with an id that is used again: %v", err)
	}
	if n.countOf("parent") != 0 {
		n.Error("it was added")
	}
}

func refusesChildrenInFull(n *node) {
	set := types(10, nil, "parent", "child")
	p := set.Types["child"]
	p.MaxBacklog = policy.Backlog{Max: 3, WhenFull: policy.DropOldest}
	set.Types["child"] = p
	n.start(set, map[string]handle{"parent": callback, "child": done})
	later := engine.Request{Type: "child", At: time.Now().Add(time.Hour)}
	first := withChildren(engine.Request{Key: "k"}, later, later)
	id := n.submit(first)[0]
	for range 2 {
		if _, err := n.Submit(n.ctx, withChildren(engine.Request{}, later, later)); !errors.Is(err, engine.ErrBacklog) {
			n.Errorf("two more: %v", err)
		}
	}
	if got, err := n.Submit(n.ctx, first); err != nil || got[0].Created || got[0].ID != id {
		n.Errorf("the first again: %+v, %v", got, err)
	}
	n.submit(withChildren(engine.Request{}, later))
	if n.countOf("parent") != 2 || n.countOf("child") != 3 {
		n.Errorf("there are %d parents, %d children", n.countOf("parent"), n.countOf("child"))
	}
}

func newChildrenByTx(n *node) {
	n.start(types(10, nil, "parent", "child"), map[string]handle{"parent": callback, "child": done})
	child := engine.Request{Type: "child"}
	r := withChildren(engine.Request{}, child, child)
	submit := func(fails error) (receipts []engine.Receipt, err error) {
		err = n.store.Update(n.ctx, func(tx storage.Tx) error {
			var err error
			if receipts, err = n.opened().SubmitTx(n.ctx, tx, child, r); err != nil {
				return err
			}
			return fails
		})
		return receipts, err
	}
	if _, err := submit(errNo); !errors.Is(err, errNo) {
		n.Fatalf("a transaction that is rolled back: %v", err)
	}
	if n.countOf("parent")+n.countOf("child") != 0 {
		n.Error("it has added tasks")
	}
	got, err := submit(nil)
	if err != nil {
		n.Fatal(err)
	}
	n.expectResult(got[1].ID, "children: 2 of 2 done, 0 failed, 0 cancelled")
	n.wait(got[0].ID)
}

func submitsInWeather(n *node) {
	w := newWeather(3, unsaid)
	n.config.Store = storagetest.Faulty(n.store, w.decide)
	n.start(types(10, nil, "parent", "child"), map[string]handle{"parent": callback, "child": done})
	child := engine.Request{Type: "child"}
	for i := range 20 {
		r := withChildren(engine.Request{ID: task.ID{1, 2, 3, byte(i + 1)}}, child, child, child)
		n.eventually("it is submitted", func() bool {
			_, err := n.Submit(n.ctx, r)
			return err == nil
		})
		defer n.expectResult(r.ID, "children: 3 of 3 done, 0 failed, 0 cancelled")
	}
	w.clear()
}
