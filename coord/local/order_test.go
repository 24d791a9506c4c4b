package local_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/coordtest"
	"github.com/taskengine/taskengine/coord/local"
	"github.com/taskengine/taskengine/task"
)

func TestCallersLeadInTheOrderOfTheirCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := local.New()
		var order []int // written by one leader after the other
		begin := make(chan struct{})
		for i := range 10 {
			peer := node.Peer()
			go func() {
				_ = peer.Lead(t.Context(), "role", func(context.Context) error {
					<-begin
					order = append(order, i)
					return nil
				})
			}()
			synctest.Wait()
		}
		close(begin)
		synctest.Wait()
		if !slices.Equal(order, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}) {
			t.Errorf("led in the order %v", order)
		}
	})
}

func TestAPanicEndsTheLeadership(t *testing.T) {
	node := local.New()
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		_ = node.Lead(t.Context(), "role", func(context.Context) error { panic("oops") })
	}()
	if err := node.Lead(t.Context(), "role", func(context.Context) error { return nil }); err != nil {
		t.Errorf("Lead returned %v", err)
	}
}

func TestALeaderLearnsWhyItsContextEnded(t *testing.T) {
	node := local.New()
	for _, c := range []struct {
		name string
		lose func()
		want error
	}{
		{"severed", node.Sever, local.ErrSevered},
		{"closed", func() { _ = node.Close() }, coord.ErrClosed},
	} {
		t.Run(c.name, func(t *testing.T) {
			calls := 0
			err := node.Lead(t.Context(), "role", func(ctx context.Context) error {
				if calls++; calls > 1 {
					return nil
				}
				c.lose()
				if got := context.Cause(ctx); !errors.Is(got, c.want) {
					t.Errorf("the context's cause is %v, want %v", got, c.want)
				}
				return errors.New("not to be returned: the leadership was lost")
			})
			if errors.Is(c.want, coord.ErrClosed) != errors.Is(err, coord.ErrClosed) || calls == 0 {
				t.Errorf("Lead returned %v after %d calls", err, calls)
			}
		})
	}
}

// calls are all calls of the ports that wait; each returns when ctx ends.
func calls(n *local.Node) map[string]func(ctx context.Context) error {
	return map[string]func(ctx context.Context) error{
		"Lead": func(ctx context.Context) error {
			return n.Lead(ctx, "role", func(ctx context.Context) error { <-ctx.Done(); return nil })
		},
		"Lead in wait": func(ctx context.Context) error {
			return n.Lead(ctx, "taken", func(context.Context) error { return errors.New("led beside another") })
		},
		"Hold": func(ctx context.Context) error {
			return n.Hold(ctx, task.ID{1}, func([]coord.Holding) {})
		},
		"Join": func(ctx context.Context) error {
			return n.Join(ctx, coord.Member{Incarnation: task.ID{1}}, func([]coord.Member) {})
		},
		"Watch": func(ctx context.Context) error {
			return n.Watch(ctx, "name", func([]coord.Setting) {})
		},
		"Subscribe": func(ctx context.Context) error {
			return n.Subscribe(ctx, func([]task.Hint) {})
		},
	}
}

func TestCloseEndsEveryCall(t *testing.T) {
	for name := range calls(local.New()) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				other := local.New()
				ctx, cancel := context.WithCancel(t.Context())
				go func() {
					_ = other.Lead(ctx, "taken", func(ctx context.Context) error { <-ctx.Done(); return nil })
				}()
				go func() {
					_ = other.Hold(ctx, task.ID{2}, func([]coord.Holding) {})
				}()
				synctest.Wait()

				node := other.Peer()
				call := calls(node)[name]
				result := make(chan error, 1)
				go func() { result <- call(ctx) }()
				synctest.Wait()
				for range 2 {
					if err := node.Close(); err != nil {
						t.Errorf("Close returned %v", err)
					}
				}
				if err := <-result; !errors.Is(err, coord.ErrClosed) {
					t.Errorf("the call under way returned %v, want %v", err, coord.ErrClosed)
				}
				if err := call(ctx); !errors.Is(err, coord.ErrClosed) {
					t.Errorf("a later call returned %v, want %v", err, coord.ErrClosed)
				}
				if !other.Holds(task.ID{2}) {
					t.Error("closing one node ended another's holder")
				}
				cancel()
			})
		})
	}
}

func TestAClosedNodeNeitherPublishesNorSwaps(t *testing.T) {
	node := local.New()
	_ = node.Close()
	if err := node.Publish(t.Context(), task.Hint{}); !errors.Is(err, coord.ErrClosed) {
		t.Errorf("Publish returned %v", err)
	}
	if _, _, err := node.Swap(t.Context(), "name", "", 0, []byte("v")); !errors.Is(err, coord.ErrClosed) {
		t.Errorf("Swap returned %v", err)
	}
	if _, err := node.Settings(t.Context(), "name"); !errors.Is(err, coord.ErrClosed) {
		t.Errorf("Settings returned %v", err)
	}
	if all, err := node.Peer().Settings(t.Context(), "name"); err != nil || len(all) > 0 {
		t.Errorf("Swap of a closed node took effect: %v, %v", all, err)
	}
}

func TestAnIncarnationJoinsOnce(t *testing.T) {
	node := local.New()
	self := coord.Member{Incarnation: task.ID{1}, Name: "a"}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err := node.Join(ctx, self, func([]coord.Member) {
		if err := node.Peer().Join(ctx, self, func([]coord.Member) {}); err == nil {
			t.Error("the same incarnation joined twice")
		}
		cancel()
	})
	if err != nil {
		t.Errorf("Join returned %v", err)
	}
	if err := node.Join(t.Context(), coord.Member{}, func([]coord.Member) {}); err == nil {
		t.Error("a member without an incarnation joined")
	}
}

func TestAWatchIsNotCalledIfNothingHasChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := local.New()
		calls := 0 // read after Wait only
		go func() { _ = node.Watch(t.Context(), "name", func([]coord.Setting) { calls++ }) }()
		first := coord.NextVersion(0, time.Now())
		for i, c := range []struct {
			name    string
			version uint64
			value   []byte
			calls   int
		}{
			{"name", 0, []byte("v"), 2},
			{"other", 0, []byte("v"), 2},
			{"name", 7, nil, 2},
			{"nothing", 0, nil, 2},
			{"name", first, []byte("v"), 3},
			{"name", first, []byte("w"), 3},
			{"name", first + 2, nil, 4},
			{"name", 0, nil, 4},
		} {
			synctest.Wait()
			if _, _, err := node.Swap(t.Context(), c.name, "scope", c.version, c.value); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if calls != c.calls {
				t.Errorf("after %d swaps it was called %d times, want %d", i+1, calls, c.calls)
			}
		}
	})
}

func TestHintsArriveOnceAndInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := local.New()
		var got []uint64 // read after Wait only
		go func() {
			_ = node.Subscribe(t.Context(), func(ts []task.Hint) {
				for _, tr := range ts {
					got = append(got, tr.Seq)
				}
			})
		}()
		synctest.Wait()
		for n := range uint64(1000) {
			if err := node.Publish(t.Context(), hint(n)); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		for i, n := range got {
			if uint64(i) != n {
				t.Fatalf("hint %d arrived at place %d", n, i)
			}
		}
		if len(got) != 1000 || node.Dropped() != 0 {
			t.Errorf("%d hints arrived and %d were dropped, want 1000 and 0", len(got), node.Dropped())
		}
	})
}

func TestASubscriberThatLagsLosesTheNewestHintsAndTheyAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := local.New()
		var got int    // read after Wait only
		var top uint64 // the same
		gate := make(chan struct{})
		go func() {
			_ = node.Subscribe(t.Context(), func(ts []task.Hint) {
				got += len(ts)
				top = max(top, ts[len(ts)-1].Seq)
				<-gate
			})
		}()
		synctest.Wait()
		publish := func(seq uint64) {
			if err := node.Publish(t.Context(), hint(seq)); err != nil {
				t.Fatal(err)
			}
		}
		publish(0)
		synctest.Wait() // fn has it, and nothing is pending
		for n := range uint64(local.Backlog + 7) {
			publish(n + 1)
		}
		if d := node.Dropped(); d != 7 {
			t.Errorf("%d hints were dropped, want 7", d)
		}
		close(gate)
		synctest.Wait()
		if got != 1+local.Backlog || top != local.Backlog {
			t.Errorf("%d hints arrived, up to %d; want %d, up to %d", got, top, 1+local.Backlog, local.Backlog)
		}
	})
}

func BenchmarkPublish(b *testing.B) {
	node := local.New()
	b.Cleanup(func() { _ = node.Close() })
	go func() { _ = node.Subscribe(b.Context(), func([]task.Hint) {}) }()
	tr := task.Hint{Trigger: task.Trigger{Queue: task.Queue{Type: "mail"}}}
	b.ReportAllocs()
	for b.Loop() {
		if err := node.Publish(b.Context(), tr); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSemaphore(b *testing.B) { coordtest.BenchmarkSemaphore(b, local.New()) }

// hint returns the hint of this number.
func hint(number uint64) task.Hint {
	return task.Hint{Trigger: task.Trigger{Rank: task.Rank{Seq: number}}}
}
