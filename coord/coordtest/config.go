package coordtest

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/taskengine/taskengine/coord"
)

// RunConfig runs the suite of [coord.Config].
func RunConfig(t *testing.T, b Backend[coord.Config]) {
	b.run(t, "a watch is called at once although there is no value", configNone)
	b.run(t, "a watch is called at once with the value that was set before", configBefore)
	b.run(t, "a change on one node is reported on the others", configChange)
	b.run(t, "a scope's value comes before the default, and its removal falls back", configScope)
	b.run(t, "names and scopes are independent", configIndependent)
	b.run(t, "an empty value is a value", configEmpty)
	b.run(t, "a value is its owner's to change", configOwnValue)
	b.run(t, "removing what is not there is no error", configRemoveNothing)
	b.run(t, "after rapid edits a watch knows the last one, and went only forward", configRapid)
	b.run(t, "all watches agree after edits from several nodes", configAgree)
	b.run(t, "fn is called one at a time", configOneCall)
	b.run(t, "Watch returns nil when its context has ended", configEnds)
	b.run(t, "a severed node's watch catches up", configSevered)
}

// watched is one call of Watch.
type watched struct {
	result chan error // what Watch returned
	cancel context.CancelFunc

	mu  sync.Mutex
	got [][]byte // guarded by mu
}

func watch(e *env[coord.Config], node coord.Config, name, scope string) *watched {
	w := &watched{result: make(chan error, 1)}
	ctx, cancel := context.WithCancel(e.Context())
	w.cancel = cancel
	e.start(func(context.Context) {
		defer cancel()
		w.result <- node.Watch(ctx, name, scope, func(value []byte) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.got = append(w.got, value)
		})
	})
	return w
}

// all returns the values that w got so far.
func (w *watched) all() [][]byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.got)
}

// knows waits until the newest value is want.
func (w *watched) knows(e *env[coord.Config], want []byte) {
	e.Helper()
	e.eventually(fmt.Sprintf("a watch to get %s", show(want)), func() bool {
		all := w.all()
		return len(all) > 0 && show(all[len(all)-1]) == show(want)
	})
}

// show tells no value from an empty one.
func show(value []byte) string {
	if value == nil {
		return "no value"
	}
	return strconv.Quote(string(value))
}

func set(e *env[coord.Config], node coord.Config, name, scope string, value []byte) {
	e.Helper()
	if err := node.Set(e.Context(), name, scope, value); err != nil {
		e.Fatalf("Set(%q, %q) returned %v", name, scope, err)
	}
}

func configNone(e *env[coord.Config]) {
	watch(e, e.connect(), "name", "").knows(e, nil)
	watch(e, e.connect(), "name", "scope").knows(e, nil)
}

func configBefore(e *env[coord.Config]) {
	node := e.connect()
	set(e, node, "name", "", []byte("for all"))
	set(e, node, "name", "scope", []byte("for one"))
	for _, w := range []struct{ scope, want string }{{"", "for all"}, {"other", "for all"}, {"scope", "for one"}} {
		w1 := watch(e, e.connect(), "name", w.scope)
		e.eventually("the first value", func() bool { return len(w1.all()) > 0 })
		if first := w1.all()[0]; string(first) != w.want {
			e.Errorf("a watch of scope %q got %s first, want %q", w.scope, show(first), w.want)
		}
	}
}

func configChange(e *env[coord.Config]) {
	a, b := e.connect(), e.connect()
	near, far := watch(e, a, "name", ""), watch(e, b, "name", "")
	for _, v := range [][]byte{[]byte("one"), []byte("two"), nil, []byte("three")} {
		set(e, a, "name", "", v)
		near.knows(e, v)
		far.knows(e, v)
	}
}

func configScope(e *env[coord.Config]) {
	node := e.connect()
	one, all := watch(e, e.connect(), "name", "scope"), watch(e, e.connect(), "name", "")
	set(e, node, "name", "", []byte("default"))
	one.knows(e, []byte("default"))
	set(e, node, "name", "scope", []byte("override"))
	one.knows(e, []byte("override"))
	set(e, node, "name", "", []byte("new default"))
	all.knows(e, []byte("new default"))
	e.settle()
	one.knows(e, []byte("override"))
	set(e, node, "name", "scope", nil)
	one.knows(e, []byte("new default"))
	set(e, node, "name", "", nil)
	one.knows(e, nil)
	all.knows(e, nil)
	for _, v := range one.all() {
		if v != nil && !slices.Contains([]string{"default", "override", "new default"}, string(v)) {
			e.Errorf("a watch got %s, which was never set", show(v))
		}
	}
}

// configIndependent uses names that a careless joining of name and scope would mix up.
func configIndependent(e *env[coord.Config]) {
	node := e.connect()
	at := [][2]string{{"a", "b"}, {"a/b", ""}, {"ab", ""}, {"a", "b/"}, {"a:b", ""}, {"a", "B"}, {"a/b", "c"}, {"a", "b/c"}}
	for i, s := range at {
		set(e, node, s[0], s[1], []byte{byte('0' + i)})
	}
	for i, s := range at {
		watch(e, node, s[0], s[1]).knows(e, []byte{byte('0' + i)})
	}
	watch(e, node, "a", "").knows(e, nil)
}

func configEmpty(e *env[coord.Config]) {
	node := e.connect()
	w := watch(e, e.connect(), "name", "scope")
	w.knows(e, nil)
	set(e, node, "name", "", []byte{})
	w.knows(e, []byte{})
	set(e, node, "name", "", []byte("default"))
	w.knows(e, []byte("default"))
	set(e, node, "name", "scope", []byte{})
	w.knows(e, []byte{})
	set(e, node, "name", "scope", nil)
	w.knows(e, []byte("default"))
}

func configOwnValue(e *env[coord.Config]) {
	node := e.connect()
	value := []byte("mine")
	set(e, node, "name", "", value)
	copy(value, "XXXX")
	got := make(chan struct{}, 100)
	e.start(func(ctx context.Context) {
		_ = node.Watch(ctx, "name", "", func(v []byte) {
			copy(v, "YYYY")
			got <- struct{}{}
		})
	})
	receive(e, "the first value", got)
	watch(e, node, "name", "").knows(e, []byte("mine"))
	watch(e, e.connect(), "name", "").knows(e, []byte("mine"))
}

func configRemoveNothing(e *env[coord.Config]) {
	node := e.connect()
	set(e, node, "name", "", nil)
	set(e, node, "name", "scope", nil)
	watch(e, node, "name", "scope").knows(e, nil)
}

func configRapid(e *env[coord.Config]) {
	const edits = 200
	node := e.connect()
	w := watch(e, e.connect(), "name", "scope")
	for i := range edits {
		set(e, node, "name", "scope", []byte(strconv.Itoa(i)))
	}
	w.knows(e, []byte(strconv.Itoa(edits-1)))
	last := -1
	for _, v := range w.all() {
		if v == nil {
			continue
		}
		n, err := strconv.Atoi(string(v))
		if err != nil || n < last {
			e.Errorf("a watch got %s after %d", show(v), last)
		}
		last = n
	}
}

func configAgree(e *env[coord.Config]) {
	const nodes, edits = 3, 20
	var watches []*watched
	var wg sync.WaitGroup
	for n := range nodes {
		node := e.connect()
		watches = append(watches, watch(e, node, "name", ""))
		wg.Go(func() {
			for i := range edits {
				value := fmt.Appendf(nil, "%d from %d", i, n)
				if err := node.Set(e.Context(), "name", "", value); err != nil {
					e.Errorf("Set returned %v", err)
				}
			}
		})
	}
	wg.Wait()
	fresh := watch(e, e.connect(), "name", "")
	e.eventually("the first value", func() bool { return len(fresh.all()) > 0 })
	truth := fresh.all()[0]
	if !bytes.HasPrefix(truth, []byte("19 ")) {
		e.Errorf("after all edits the value is %s, want the last edit of a node", show(truth))
	}
	for _, w := range watches {
		w.knows(e, truth)
	}
}

// configOneCall keeps fn busy until the next change was made.
func configOneCall(e *env[coord.Config]) {
	var a alone
	called, release := make(chan struct{}), make(chan struct{})
	watching, node := e.connect(), e.connect()
	e.start(func(ctx context.Context) {
		_ = watching.Watch(ctx, "name", "scope", func([]byte) {
			defer a.enter(e.T, "fn")()
			select {
			case called <- struct{}{}:
			case <-ctx.Done():
			}
			select {
			case <-release:
			case <-ctx.Done():
			}
		})
	})
	receive(e, "the first value", called)
	for i := range 10 {
		set(e, node, "name", []string{"", "scope"}[min(i, 1)], []byte(strconv.Itoa(i)))
		e.settle()
		release <- struct{}{}
		receive(e, "the next value", called)
	}
}

func configEnds(e *env[coord.Config]) {
	node := e.connect()
	w := watch(e, node, "name", "")
	w.knows(e, nil)
	w.cancel()
	if err := receive(e, "Watch to return", w.result); err != nil {
		e.Errorf("Watch returned %v after its context had ended, want nil", err)
	}
	before := len(w.all())
	set(e, node, "name", "", []byte("later"))
	e.settle()
	if len(w.all()) != before {
		e.Error("fn was called after Watch had returned")
	}
}

func configSevered(e *env[coord.Config]) {
	node, other := e.connect(), e.connect()
	w := watch(e, node, "name", "")
	set(e, other, "name", "", []byte("before"))
	w.knows(e, []byte("before"))
	e.Sever(e.T, node)
	set(e, other, "name", "", []byte("after"))
	w.knows(e, []byte("after"))
	set(e, node, "name", "", []byte("by itself"))
	w.knows(e, []byte("by itself"))
}
