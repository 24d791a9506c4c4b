package coordtest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/taskengine/taskengine/coord"
)

// RunConfig runs the suite of [coord.Config].
func RunConfig(t *testing.T, b Backend[coord.Config]) {
	b.run(t, "a watch is called at once although there is no setting", configNone)
	b.run(t, "a watch is called at once with the settings of all scopes", configBefore)
	b.run(t, "a change on one node is reported on the others", configChange)
	b.run(t, "a swap of another version changes nothing and returns the setting", configOtherVersion)
	b.run(t, "versions grow over all scopes of a name, also over a removal", configVersions)
	b.run(t, "removing what is not there is no error", configRemoveNothing)
	b.run(t, "of swaps at once of one version one is made", configConcurrent)
	b.run(t, "names and scopes are independent", configIndependent)
	b.run(t, "an empty value is a value", configEmpty)
	b.run(t, "a value is its owner's to change", configOwnValue)
	b.run(t, "a value may have any bytes and many of them", configBytes)
	b.run(t, "a watch sees many scopes, in their order", configMany)
	b.run(t, "scopes may be long", configLong)
	b.run(t, "after rapid edits a watch knows the last one, and went only forward", configRapid)
	b.run(t, "all watches agree after edits from several nodes", configAgree)
	b.run(t, "fn is called one at a time", configOneCall)
	b.run(t, "Watch returns nil when its context has ended", configEnds)
	b.run(t, "a severed node swaps, and its watch catches up", configSevered)
}

// watched is one call of Watch.
type watched struct {
	result chan error // the result of Watch
	cancel context.CancelFunc

	mu  sync.Mutex
	got [][]coord.Setting // guarded by mu
}

func watch(e *env[coord.Config], node coord.Config, name string) *watched {
	w := &watched{result: make(chan error, 1)}
	ctx, cancel := context.WithCancel(e.Context())
	w.cancel = cancel
	e.start(func(context.Context) {
		defer cancel()
		w.result <- node.Watch(ctx, name, func(all []coord.Setting) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.got = append(w.got, all)
		})
	})
	return w
}

// all returns the settings that w got so far.
func (w *watched) all() [][]coord.Setting {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.got)
}

// first waits for the first settings that w gets.
func (w *watched) first(e *env[coord.Config]) []coord.Setting {
	e.Helper()
	e.eventually("the first settings", func() bool { return len(w.all()) > 0 })
	return w.all()[0]
}

// knows waits until the newest settings are want, without their versions.
func (w *watched) knows(e *env[coord.Config], want ...string) {
	e.Helper()
	e.eventually(fmt.Sprintf("a watch to get %q", want), func() bool {
		all := w.all()
		return len(all) > 0 && slices.Equal(show(all[len(all)-1]), want)
	})
}

// show returns the settings as "scope=value".
func show(all []coord.Setting) []string {
	var texts []string
	for _, s := range all {
		texts = append(texts, s.Scope+"="+string(s.Value))
	}
	return texts
}

// swap changes a setting that has the version of was.
func swap(e *env[coord.Config], node coord.Config, name string, was coord.Setting, value []byte) coord.Setting {
	e.Helper()
	now, swapped, err := node.Swap(e.Context(), name, was.Scope, was.Version, value)
	if err != nil || !swapped {
		e.Fatalf("Swap(%q, %q, %d) returned %v, %t, %v", name, was.Scope, was.Version, now, swapped, err)
	}
	if now.Scope != was.Scope || string(now.Value) != string(value) || (now.Value == nil) != (value == nil) ||
		(now.Version == 0) != (value == nil) || value != nil && now.Version <= was.Version {
		e.Fatalf("Swap(%q, %q, %d, %q) returned %v", name, was.Scope, was.Version, value, now)
	}
	return now
}

// set sets a setting, whatever its version. Any goroutine may call it.
func set(e *env[coord.Config], node coord.Config, name, scope string, value []byte) coord.Setting {
	e.Helper()
	was := coord.Setting{Scope: scope}
	for {
		now, swapped, err := node.Swap(e.Context(), name, scope, was.Version, value)
		if err != nil {
			e.Errorf("Swap(%q, %q) returned %v", name, scope, err)
			return now
		}
		if swapped {
			return now
		}
		was = now
	}
}

// is checks the result of Settings.
func is(e *env[coord.Config], node coord.Config, name string, want ...string) {
	e.Helper()
	all, err := node.Settings(e.Context(), name)
	if err != nil || !slices.Equal(show(all), want) {
		e.Errorf("the settings %q are %q, %v, want %q", name, show(all), err, want)
	}
}

func configNone(e *env[coord.Config]) {
	node := e.connect()
	watch(e, e.connect(), "name").knows(e)
	set(e, node, "name", "scope", []byte("v"))
	set(e, node, "name", "scope", nil)
	is(e, node, "name")
	watch(e, e.connect(), "name").knows(e)
}

func configBefore(e *env[coord.Config]) {
	node := e.connect()
	set(e, node, "name", "scope", []byte("for one"))
	set(e, node, "name", "", []byte("for none"))
	want := []string{"=for none", "scope=for one"}
	is(e, node, "name", want...)
	is(e, e.connect(), "name", want...)
	first := watch(e, e.connect(), "name").first(e)
	if got := show(first); !slices.Equal(got, want) {
		e.Errorf("a watch got %q first, want %q", got, want)
	}
	all, err := node.Settings(e.Context(), "name")
	if err != nil || len(all) != len(first) || all[0].Version != first[0].Version || all[1].Version != first[1].Version {
		e.Errorf("a watch got %v, and the settings are %v, %v", first, all, err)
	}
}

func configChange(e *env[coord.Config]) {
	a, b := e.connect(), e.connect()
	near, far := watch(e, a, "name"), watch(e, b, "name")
	var one, two coord.Setting
	one.Scope, two.Scope = "one", "two"
	for _, c := range []struct {
		of    *coord.Setting
		value []byte
		want  []string
	}{
		{&two, []byte("a"), []string{"two=a"}},
		{&one, []byte("b"), []string{"one=b", "two=a"}},
		{&two, []byte("c"), []string{"one=b", "two=c"}},
		{&one, nil, []string{"two=c"}},
		{&one, []byte("d"), []string{"one=d", "two=c"}},
	} {
		*c.of = swap(e, a, "name", *c.of, c.value)
		near.knows(e, c.want...)
		far.knows(e, c.want...)
		is(e, b, "name", c.want...)
	}
}

func configOtherVersion(e *env[coord.Config]) {
	node, other := e.connect(), e.connect()
	refused := func(version uint64, value []byte, want coord.Setting) {
		e.Helper()
		now, swapped, err := other.Swap(e.Context(), "name", "scope", version, value)
		if err != nil || swapped || now.Scope != "scope" || string(now.Value) != string(want.Value) ||
			(now.Value == nil) != (want.Value == nil) || now.Version != want.Version {
			e.Errorf("Swap of version %d returned %v, %t, %v, want %v", version, now, swapped, err, want)
		}
	}
	refused(1, []byte("x"), coord.Setting{})
	refused(1, nil, coord.Setting{})
	first := set(e, node, "name", "scope", []byte("first"))
	second := swap(e, node, "name", first, []byte("second"))
	for _, version := range []uint64{0, first.Version, second.Version + 1, 1 << 63, 1<<64 - 1} {
		refused(version, []byte("x"), second)
		refused(version, nil, second)
	}
	is(e, node, "name", "scope=second")
	swap(e, other, "name", second, nil)
	refused(second.Version, []byte("x"), coord.Setting{})
	refused(second.Version, nil, coord.Setting{})
	is(e, node, "name")
}

func configVersions(e *env[coord.Config]) {
	a, b := e.connect(), e.connect()
	newest := uint64(0)
	for i, value := range []string{"v", "v", "w", "", "x", "other", "", "", "", "v", "v", "", "v"} {
		scope := []string{"one", "two", "three"}[i%3]
		if node := []coord.Config{a, b}[i%2]; value == "" {
			set(e, node, "name", scope, nil)
		} else {
			now := set(e, node, "name", scope, []byte(value))
			if now.Version <= newest {
				e.Errorf("change %d has the version %d, and one before had %d", i, now.Version, newest)
			}
			newest = now.Version
		}
		all, err := a.Settings(e.Context(), "name")
		if err != nil {
			e.Fatal(err)
		}
		at := slices.IndexFunc(all, func(s coord.Setting) bool { return s.Scope == scope })
		if value == "" && at >= 0 || value != "" && (at < 0 || all[at].Version != newest) {
			e.Errorf("after change %d, of %s to %q with version %d, the settings are %v", i, scope, value, newest, all)
		}
	}
}

func configRemoveNothing(e *env[coord.Config]) {
	node := e.connect()
	w := watch(e, node, "name")
	w.knows(e)
	for range 2 {
		swap(e, node, "name", coord.Setting{Scope: "scope"}, nil)
	}
	is(e, node, "name")
	set(e, node, "name", "scope", []byte("v"))
	w.knows(e, "scope=v")
}

// configConcurrent counts in a setting, from several nodes at once. A swap that overwrote another one,
// or that reported another one's success, would make the sum wrong.
func configConcurrent(e *env[coord.Config]) {
	const nodes, edits = 4, 15
	var wg sync.WaitGroup
	for range nodes {
		node := e.connect()
		wg.Go(func() {
			was := coord.Setting{Scope: "scope"}
			for done := 0; done < edits; {
				n, _ := strconv.Atoi(string(was.Value))
				now, swapped, err := node.Swap(e.Context(), "name", "scope", was.Version, []byte(strconv.Itoa(n+1)))
				if err != nil {
					e.Errorf("Swap returned %v", err)
					return
				}
				if swapped {
					done++
				}
				was = now
			}
		})
	}
	wg.Wait()
	is(e, e.connect(), "name", fmt.Sprintf("scope=%d", nodes*edits))
}

// configIndependent uses names that a careless joining of name and scope would mix up.
func configIndependent(e *env[coord.Config]) {
	node := e.connect()
	at := [][2]string{{"a", "b"}, {"a/b", ""}, {"ab", ""}, {"a", "b/"}, {"a:b", ""}, {"a", "B"}, {"a/b", "c"}, {"a", "b/c"}, {"", "a"}, {"", ""}}
	for i, s := range at {
		set(e, node, s[0], s[1], []byte{byte('0' + i)})
	}
	watch(e, node, "a").knows(e, "B=5", "b=0", "b/=3", "b/c=7")
	watch(e, node, "a/b").knows(e, "=1", "c=6")
	watch(e, node, "ab").knows(e, "=2")
	watch(e, node, "a:b").knows(e, "=4")
	watch(e, node, "").knows(e, "=9", "a=8")
	watch(e, node, "b").knows(e)
}

// configLong uses scopes of the size of the longest value of a limit, which cannot be compressed much.
func configLong(e *env[coord.Config]) {
	node := e.connect()
	text := make([]rune, 500)
	for i := range text {
		text[i] = rune(0x4e00 + (i*i*7919+i*104729)%20000)
	}
	long := string(text)
	w := watch(e, e.connect(), "name")
	one := set(e, node, "name", long+"a", []byte("1"))
	set(e, node, "name", long+"b", []byte("2"))
	w.knows(e, long+"a=1", long+"b=2")
	swap(e, node, "name", one, nil)
	w.knows(e, long+"b=2")
	is(e, node, "name", long+"b=2")
}

func configEmpty(e *env[coord.Config]) {
	node := e.connect()
	w := watch(e, e.connect(), "name")
	now := swap(e, node, "name", coord.Setting{}, []byte{})
	w.knows(e, "=")
	if all := w.all(); all[len(all)-1][0].Value == nil {
		e.Error("an empty value came as none")
	}
	now = swap(e, node, "name", now, []byte("v"))
	w.knows(e, "=v")
	now = swap(e, node, "name", now, []byte{})
	w.knows(e, "=")
	swap(e, node, "name", now, nil)
	w.knows(e)
}

func configOwnValue(e *env[coord.Config]) {
	node := e.connect()
	value := []byte("mine")
	now := set(e, node, "name", "", value)
	copy(value, "XXXX")
	copy(now.Value, "ZZZZ")
	got := make(chan struct{}, 100)
	e.start(func(ctx context.Context) {
		_ = node.Watch(ctx, "name", func(all []coord.Setting) {
			copy(all[0].Value, "YYYY")
			all[0].Scope = "spoiled"
			got <- struct{}{}
		})
	})
	receive(e, "the first settings", got)
	all, err := node.Settings(e.Context(), "name")
	if err != nil {
		e.Fatal(err)
	}
	copy(all[0].Value, "WWWW")
	watch(e, node, "name").knows(e, "=mine")
	watch(e, e.connect(), "name").knows(e, "=mine")
	if now, _, _ := node.Swap(e.Context(), "name", "", 0, nil); string(now.Value) != "mine" {
		e.Errorf("the value is %q", now.Value)
	}
}

func configBytes(e *env[coord.Config]) {
	node := e.connect()
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	long := strings.Repeat(string(all), 1000)
	scope := "émail * %/" + strings.Repeat("x", 500)
	w := watch(e, e.connect(), "name")
	now := swap(e, node, "name", coord.Setting{Scope: scope}, []byte(long))
	w.knows(e, scope+"="+long)
	swap(e, node, "name", now, all)
	w.knows(e, scope+"="+string(all))
}

func configMany(e *env[coord.Config]) {
	const scopes = 300
	node := e.connect()
	w := watch(e, e.connect(), "name")
	var want []string
	for i := range scopes {
		n := i * 7 % scopes // in another order than Watch reports them
		set(e, node, "name", fmt.Sprintf("scope %03d", n), []byte(strconv.Itoa(n)))
		want = append(want, fmt.Sprintf("scope %03d=%d", i, i))
	}
	w.knows(e, want...)
	is(e, node, "name", want...)
	set(e, node, "name", "scope 000", nil)
	w.knows(e, want[1:]...)
}

func configRapid(e *env[coord.Config]) {
	const edits = 200
	node := e.connect()
	w := watch(e, e.connect(), "name")
	var now [2]coord.Setting
	for i := range edits {
		now[i%2].Scope = strconv.Itoa(i % 2)
		now[i%2] = swap(e, node, "name", now[i%2], []byte(strconv.Itoa(i)))
	}
	w.knows(e, fmt.Sprintf("0=%d", edits-2), fmt.Sprintf("1=%d", edits-1))
	last := map[string]coord.Setting{}
	for _, all := range w.all() {
		for _, s := range all {
			was := last[s.Scope]
			before, _ := strconv.Atoi(string(was.Value))
			n, err := strconv.Atoi(string(s.Value))
			if err != nil || n < before || s.Version < was.Version || (n == before) != (s.Version == was.Version) && was.Version > 0 {
				e.Errorf("a watch got %v after %v", s, was)
			}
			last[s.Scope] = s
		}
		if len(all) < len(last) {
			e.Errorf("a watch got %v, which is less than before", all)
		}
	}
}

func configAgree(e *env[coord.Config]) {
	const nodes, edits = 3, 20
	var watches []*watched
	var wg sync.WaitGroup
	for n := range nodes {
		node := e.connect()
		watches = append(watches, watch(e, node, "name"))
		wg.Go(func() {
			for i := range edits {
				set(e, node, "name", strconv.Itoa(i%2), fmt.Appendf(nil, "%d from %d", i, n))
			}
		})
	}
	wg.Wait()
	truth := watch(e, e.connect(), "name").first(e)
	if len(truth) != 2 || !strings.HasPrefix(string(truth[0].Value), "18 ") || !strings.HasPrefix(string(truth[1].Value), "19 ") {
		e.Errorf("after all edits the settings are %q, want the last edit of a node for each scope", show(truth))
	}
	for _, w := range watches {
		w.knows(e, show(truth)...)
	}
}

// configOneCall keeps fn busy until the next change was made.
func configOneCall(e *env[coord.Config]) {
	var a alone
	called, release := make(chan struct{}), make(chan struct{})
	watching, node := e.connect(), e.connect()
	e.start(func(ctx context.Context) {
		_ = watching.Watch(ctx, "name", func([]coord.Setting) {
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
	receive(e, "the first settings", called)
	for i := range 10 {
		set(e, node, "name", []string{"", "scope"}[min(i, 1)], []byte(strconv.Itoa(i)))
		e.settle()
		release <- struct{}{}
		receive(e, "the next settings", called)
	}
}

func configEnds(e *env[coord.Config]) {
	node := e.connect()
	w := watch(e, node, "name")
	w.knows(e)
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
	w := watch(e, node, "name")
	now := set(e, other, "name", "", []byte("before"))
	w.knows(e, "=before")
	e.Sever(e.T, node)
	now = swap(e, other, "name", now, []byte("after"))
	w.knows(e, "=after")
	swap(e, node, "name", now, []byte("by itself"))
	w.knows(e, "=by itself")
	is(e, other, "name", "=by itself")
}
