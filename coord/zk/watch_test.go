//go:build unix

package zk_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/coordtest"
	"github.com/taskengine/taskengine/coord/zk"
)

// The library sets watches again when it has connected again, beside requests with answers that change its last seen state.
func TestNoChangeIsMissedWhenConnectionsBreak(t *testing.T) {
	o := zk.Options{Endpoints: cluster.Endpoints(), Prefix: coordtest.Prefix(), Lease: patientLease}
	b := connect(t, o)
	wire, address := coordtest.Wire(t, cluster.Endpoints()[0])
	o.Endpoints = []string{address}
	a := connect(t, o)
	for i := range 500 { // nodes to be watched
		if _, ok, err := b.Swap(t.Context(), fmt.Sprint("other", i), "scope", 0, []byte("value")); err != nil || !ok {
			t.Fatal(err)
		}
	}
	var seen atomic.Uint64
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	running.Go(func() {
		if err := a.Watch(ctx, "name", func(all []coord.Setting) {
			for _, s := range all {
				seen.Store(s.Version)
			}
		}); err != nil {
			t.Error(err)
		}
	})
	for range 8 {
		running.Go(func() {
			for ctx.Err() == nil {
				_, _ = a.Settings(ctx, "name") // it may fail when the connection breaks
			}
		})
	}
	var version uint64
	for range 10 {
		wire.Heal() // earlier connections are lost
		s, ok, err := b.Swap(ctx, "name", "scope", version, []byte("value"))
		if err != nil || !ok {
			t.Fatalf("the setting is not changed: %v, %v", s, err)
		}
		version = s.Version
		coordtest.Await(t, fmt.Sprint("change ", version), func() bool { return seen.Load() == version })
	}
}
