//go:build unix

package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/coordtest"
	"github.com/taskengine/taskengine/coord/etcd"
	"github.com/taskengine/taskengine/internal/etcdtest"
	"github.com/taskengine/taskengine/internal/logtest"
	"github.com/taskengine/taskengine/task"
)

// busy is a node that leads a role and holds permits of a limit while etcd runs out of space.
type busy struct {
	*etcd.Coord
	leads atomic.Bool
	ended atomic.Bool // the role or the permits were lost
	held  atomic.Int64
	id    task.ID
}

func beBusy(t *testing.T, o etcd.Options) *busy {
	t.Helper()
	b := &busy{Coord: connect(t, o), id: task.ID{1}}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	go func() {
		_ = b.Lead(ctx, "busy", func(leading context.Context) error {
			b.leads.Store(true)
			<-leading.Done()
			b.ended.Store(true)
			return nil
		})
	}()
	go func() {
		_ = b.Hold(ctx, b.id, func(news []coord.Holding) {
			for _, h := range news {
				b.held.Store(int64(h.Held))
			}
		})
		b.ended.Store(true)
	}()
	coordtest.Await(t, "a role", b.leads.Load)
	coordtest.Await(t, "a permit", func() bool { b.want(1, 1); return b.held.Load() == 1 })
	return b
}

func (b *busy) want(number uint64, n int) {
	b.Order(b.id, coord.Order{Name: "busy", Number: number, Want: n, Max: 2})
}

// Changes of cells are transactions within a transaction, which etcd does not count: nodes that run go on. A node that
// starts needs a lease.
func TestEtcdRunsOutOfSpace(t *testing.T) {
	c := start(t, 1, etcdtest.WithFlags("--quota-backend-bytes", fmt.Sprint(4<<20)))
	library := client(t, clientv3.Config{Endpoints: c.Endpoints()})
	o := etcd.Options{Endpoints: c.Endpoints(), Lease: 20 * time.Second}
	b := beBusy(t, o)
	fill(t, library)
	awaitRenewal(t, library)
	coordtest.Use(t, b)
	b.want(2, 2)
	coordtest.Await(t, "another permit", func() bool { return b.held.Load() == 2 })

	var log logtest.Buffer
	o.Log = slog.New(slog.NewTextHandler(&log, nil))
	late := connect(t, o)
	coordtest.Unreachable(t, late, c.Endpoints()[0], "has used up its space", "compact and defragment", "alarm disarm")
	led := make(chan error, 1)
	go func() { led <- late.Lead(t.Context(), "late", func(context.Context) error { return nil }) }()
	coordtest.Await(t, "the reason in the log", func() bool {
		return strings.Contains(log.String(), "has used up its space") && strings.Contains(log.String(), "alarm disarm")
	})
	select {
	case err := <-led:
		t.Errorf("a node leads without a lease: %v", err)
	default:
	}

	empty(t, library, c.Endpoints()[0])
	coordtest.Await(t, "a leader", func() bool { return len(led) > 0 })
	if err := <-led; err != nil {
		t.Error(err)
	}
	if b.ended.Load() || !b.Holds(b.id) {
		t.Errorf("the node lost its role or permits: %v, %v", b.ended.Load(), b.Holds(b.id))
	}
}

// awaitRenewal waits until the only lease has been renewed.
func awaitRenewal(t *testing.T, c *clientv3.Client) {
	t.Helper()
	all, err := c.Leases(t.Context())
	if err != nil || len(all.Leases) != 1 {
		t.Fatalf("the leases are %v, %v", all, err)
	}
	last := int64(0)
	coordtest.Await(t, "a renewal", func() bool {
		now, err := c.TimeToLive(t.Context(), all.Leases[0].ID)
		if err != nil {
			t.Fatal(err)
		}
		before := last
		last = now.TTL
		return before > 0 && now.TTL > before
	})
}

// fill stores values until etcd has no space for more.
func fill(t *testing.T, c *clientv3.Client) {
	t.Helper()
	value := strings.Repeat("x", 100<<10)
	for i := range 1000 {
		_, err := c.Put(t.Context(), fmt.Sprint("fill/", i), value)
		if errors.Is(err, rpctypes.ErrNoSpace) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("etcd has no quota")
}

// empty makes space in an etcd without space, as an operator does.
func empty(t *testing.T, c *clientv3.Client, endpoint string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	removed, err := c.Delete(ctx, "fill/", clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Compact(ctx, removed.Header.Revision, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Defragment(ctx, endpoint); err != nil {
		t.Fatal(err)
	}
	if _, err := c.AlarmDisarm(ctx, &clientv3.AlarmMember{}); err != nil {
		t.Fatal(err)
	}
}
