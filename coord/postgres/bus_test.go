//go:build unix

package postgres_test

import (
	"context"
	"encoding/base64"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/postgres"
	"github.com/taskengine/taskengine/task"
)

// subscriber is one call of Subscribe.
type subscriber struct {
	mu    sync.Mutex
	heard map[task.Hint]int // guarded by mu: how often
}

// subscribe subscribes until the test ends.
func subscribe(t *testing.T, n *node) *subscriber {
	s := &subscriber{heard: map[task.Hint]int{}}
	done := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(func() { cancel(); <-done })
	go func() {
		defer close(done)
		_ = n.Subscribe(ctx, func(ts []task.Hint) {
			s.mu.Lock()
			defer s.mu.Unlock()
			for _, tr := range ts {
				s.heard[tr]++
			}
		})
	}()
	return s
}

func (s *subscriber) count(tr task.Hint) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.heard[tr]
}

func (s *subscriber) distinct() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.heard)
}

func hint(n int) task.Hint {
	return task.Hint{State: task.Submitted, Trigger: task.Trigger{Ref: task.Ref{ID: task.ID{1: byte(n >> 8), 2: byte(n), 3: 1}, Version: 1}, Queue: task.Queue{Type: "mail"}, Shard: 5}}
}

// listener returns a node that listens, and its subscriber.
func listener(t *testing.T, url string) (*node, *subscriber) {
	t.Helper()
	n := connect(t, url, setup{Options: postgres.Options{Lease: patientLease}})
	s := subscribe(t, n)
	eventually(t, "a node that listens", func() bool { return n.Listening() && !n.Session().IsZero() && s.count(coord.WakeAll()) > 0 })
	return n, s
}

func TestAnyStatementMayWakeAShard(t *testing.T) {
	url := database(t)
	_, s := listener(t, url)
	execute(t, url, "NOTIFY taskengine, 'w:0,17,65535'")
	for _, shard := range []uint16{0, 17, 1<<16 - 1} {
		eventually(t, "a wake", func() bool { return s.count(coord.Wake(shard)) == 1 })
	}
	before := s.count(coord.WakeAll())
	execute(t, url, "NOTIFY taskengine, 'w:65536'")
	eventually(t, "a wake of all, for want of a shard", func() bool { return s.count(coord.WakeAll()) == before+1 })
}

func TestWhatIsNotUnderstoodIsIgnored(t *testing.T) {
	url := database(t)
	n, s := listener(t, url)
	execute(t, url, "NOTIFY taskengine, 'w:1'")
	eventually(t, "a wake", func() bool { return s.count(coord.Wake(1)) == 1 })
	known := s.distinct()
	for _, garbage := range []string{
		"", ":", "k:", "k:1", "k:1:x", "k:65536::", "k:1:!:", "k:1:YQ==:!", "t", "t:", "t::", "t:x:!!", "t:x:AAAA", "u:x:", "c:", "c:member", "c:leader", "c:permit", "c:setting", "c:nonsense",
		"t:x:" + base64.RawStdEncoding.EncodeToString([]byte(strings.Repeat("\xff", 5000))), strings.Repeat("x", 7999),
	} {
		ask[string](t, url, "SELECT pg_notify('taskengine', $1)::text", garbage)
	}
	execute(t, url, "NOTIFY taskengine, 'w:2'")
	eventually(t, "a wake after the garbage", func() bool { return s.count(coord.Wake(2)) == 1 })
	if now := s.distinct(); now != known+1 {
		t.Errorf("garbage gives %d hints", now-known-1)
	}
	if !n.Listening() {
		t.Error("it no longer listens")
	}
}

func TestManyHintsAreOneStatement(t *testing.T) {
	url := database(t)
	_, far := listener(t, url)
	var sent statements
	n := connect(t, url, setup{tracer: &sent})
	near := subscribe(t, n)
	eventually(t, "a session", func() bool { return !n.Session().IsZero() && n.Listening() })
	var hints []task.Hint
	for i := range 1000 {
		hints = append(hints, hint(i))
	}
	if err := n.Publish(t.Context(), hints...); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*subscriber{near, far} {
		eventually(t, "all hints", func() bool { return s.count(hints[999]) > 0 })
		for _, h := range hints {
			if s.count(h) != 1 {
				t.Errorf("%v came %d times", h.ID, s.count(h))
			}
		}
	}
	if notified := sent.with("pg_notify"); len(notified) != 1 {
		t.Errorf("%d statements were sent for one Publish", len(notified))
	}
}

func TestNothingIsSentToANodeThatIsAlone(t *testing.T) {
	url := database(t)
	var sent statements
	n := connect(t, url, setup{tracer: &sent})
	s := subscribe(t, n)
	eventually(t, "a session", func() bool { return !n.Session().IsZero() })
	for i := range 100 {
		if err := n.Publish(t.Context(), hint(i)); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the hints", func() bool { return s.count(hint(99)) > 0 })
	beats := len(sent.with("coord_renew"))
	eventually(t, "more heartbeats", func() bool { return len(sent.with("coord_renew")) > beats+1 })
	if notified := sent.with("pg_notify"); len(notified) > 0 {
		t.Errorf("%d statements were sent without a listener", len(notified))
	}
}

func TestALostConnectionIsReportedAndReplaced(t *testing.T) {
	url := database(t)
	_, s := listener(t, url)
	for range 3 {
		before := s.count(coord.WakeAll())
		eventually(t, "the end of the connection that listens", func() bool {
			return ask[int](t, url, `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
				WHERE datname = current_database() AND query LIKE 'LISTEN%'`) > 0
		})
		eventually(t, "the news that hints may have been lost", func() bool { return s.count(coord.WakeAll()) > before })
	}
}

func TestSchemasOfOneDatabaseAreApart(t *testing.T) {
	url := database(t)
	const odd = "Other_1"
	prepare(t, url, odd)
	a, near := listener(t, url)
	b := connect(t, url, setup{Options: postgres.Options{Schema: odd}})
	far := subscribe(t, b)
	eventually(t, "a node that listens", b.Listening)
	receive(t, "the leadership", lead(t, a, "role"))
	receive(t, "the same leadership in another schema", lead(t, b, "role"))
	execute(t, url, `NOTIFY "Other_1", 'w:1'; NOTIFY taskengine, 'w:2'`)
	eventually(t, "the wakes", func() bool { return near.count(coord.Wake(2)) > 0 && far.count(coord.Wake(1)) > 0 })
	if near.count(coord.Wake(1))+far.count(coord.Wake(2)) > 0 {
		t.Error("a hint came into another schema")
	}
}

func TestBadOptionsAreRefused(t *testing.T) {
	n := connect(t, database(t), setup{}) // for its pool
	for name, o := range map[string]postgres.Options{
		"a schema with a quote":        {Schema: `a"b`},
		"a schema that is too long":    {Schema: strings.Repeat("x", 64)},
		"a lease too short":            {Lease: time.Millisecond},
		"no connection that can be it": {Listen: "postgres://%%"},
	} {
		if _, err := postgres.New(n.pool, o); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}

func TestWhatTheDatabaseCannotStoreIsRefused(t *testing.T) {
	n := connect(t, database(t), setup{})
	const bad = "a\x00b"
	ctx := t.Context()
	_, holders := n.Holders(ctx, "\xff")
	_, read := n.Settings(ctx, bad)
	_, _, swappedName := n.Swap(ctx, bad, "", 0, nil)
	_, _, swappedScope := n.Swap(ctx, "name", bad, 0, nil)
	for what, err := range map[string]error{
		"role":    n.Lead(ctx, bad, func(context.Context) error { return nil }),
		"name":    n.Join(ctx, coord.Member{Incarnation: task.ID{1}, Name: bad}, func([]coord.Member) {}),
		"handler": n.Join(ctx, coord.Member{Incarnation: task.ID{1}, Handlers: []string{bad}}, func([]coord.Member) {}),
		"label":   n.Join(ctx, coord.Member{Incarnation: task.ID{1}, Labels: map[string]string{"a": bad}}, func([]coord.Member) {}),
		"member":  n.Join(ctx, coord.Member{Name: "a"}, func([]coord.Member) {}),
		"setting": swappedName,
		"scope":   swappedScope,
		"read":    read,
		"watch":   n.Watch(ctx, bad, func([]coord.Setting) {}),
		"limit":   holders,
	} {
		if err == nil {
			t.Errorf("%s: taken", what)
		}
	}
	receive(t, "the leadership of a good role", lead(t, n, "role"))
}

func TestAStatementMayNameAnOrderingKey(t *testing.T) {
	url := database(t)
	_, s := listener(t, url)
	key := strings.Repeat("k:", 250)
	ask[string](t, url, "SELECT pg_notify('taskengine', format('k:7:%s:%s', encode(convert_to('mäil', 'UTF8'), 'base64'), encode($1::text::bytea, 'base64')))::text", key)
	want := task.Hint{About: task.AboutKey, OrderingKey: key, Trigger: task.Trigger{Queue: task.Queue{Type: "mäil"}, Shard: 7}}
	eventually(t, "the ordering key", func() bool { return s.count(want) == 1 })
}

func TestHintsFitIntoNotifications(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var hs []task.Hint
		for n := range rapid.IntRange(0, 300).Draw(t, "hints") {
			h := hint(n)
			h.Group = strings.Repeat("g", rapid.IntRange(0, 9000).Draw(t, "length"))
			hs = append(hs, h)
		}
		var got []task.Hint
		for _, p := range postgres.Pack("me", hs) {
			if len(p) > postgres.MaxPayload {
				t.Fatalf("a payload of %d bytes", len(p))
			}
			part, err := postgres.Unpack(strings.TrimPrefix(p, "t:me:"))
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, part...)
		}
		for i, h := range hs {
			if len(got) != len(hs) || got[i] != h && got[i] != coord.Wake(h.Shard) {
				t.Fatalf("packed %v, unpacked %v", hs, got)
			}
		}
	})
}

func TestUnpackTakesAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw := rapid.SliceOf(rapid.Byte()).Draw(t, "raw")
		_, _ = postgres.Unpack(base64.RawStdEncoding.EncodeToString(raw))
		_, _ = postgres.Unpack(string(raw))
	})
}
