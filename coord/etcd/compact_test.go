//go:build unix

package etcd_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/coordtest"
	"github.com/taskengine/taskengine/coord/etcd"
)

// A watch cannot go on from a revision that is not kept any more.
func TestChangesThatAreCompactedWhileANodeIsAway(t *testing.T) {
	c := start(t, 1)
	wire, address := coordtest.Wire(t, c.Endpoints()[0])
	a := connect(t, etcd.Options{Endpoints: []string{address}})
	b := connect(t, etcd.Options{Endpoints: c.Endpoints()})
	var seen atomic.Uint64
	ctx, stop := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	defer watching.Wait()
	defer stop()
	watching.Go(func() {
		if err := a.Watch(ctx, "name", func(all []coord.Setting) {
			for _, s := range all {
				seen.Store(s.Version)
			}
		}); err != nil {
			t.Error(err)
		}
	})
	var version uint64
	swap := func() {
		s, swapped, err := b.Swap(ctx, "name", "", version, fmt.Append(nil, version))
		if err != nil || !swapped {
			t.Fatalf("swapping a setting: %v, %v", swapped, err)
		}
		version = s.Version
	}
	swap()
	coordtest.Await(t, "the first change", func() bool { return seen.Load() == version })
	wire.Cut()
	for range 5 {
		swap()
	}
	library := client(t, clientv3.Config{Endpoints: c.Endpoints()})
	now, err := library.Get(ctx, "key")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := library.Compact(ctx, now.Header.Revision); err != nil {
		t.Fatal(err)
	}
	wire.Heal()
	coordtest.Await(t, "the last change", func() bool { return seen.Load() == version })
	swap()
	coordtest.Await(t, "a later change", func() bool { return seen.Load() == version })
}
