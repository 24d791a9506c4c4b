//go:build !race

package cells_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/cells"
	"github.com/taskengine/taskengine/task"
)

// The coordinator takes values of 1 kB, and 30,000 limits would need 2 kB in each of the 1024 cells. bound is the limit that it
// announces.
func TestLimitsForWhichACellHasNoRoomDisturbNothingElse(t *testing.T) {
	for name, bound := range map[string]int{"that is known": 0, "that is not known": 1 << 20} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				m := newMemory()
				m.most, m.bound = 1000, bound
				c := m.connect(nil)
				n := cells.New(c, cells.Options{Driver: "memory", Name: "test", Lease: lease, Now: time.Now, Log: slog.New(slog.NewTextHandler(&log, nil))})
				t.Cleanup(func() { _ = n.Close() })
				lost := make(chan error, 1)
				go func() {
					lost <- n.Join(t.Context(), coord.Member{Incarnation: task.ID{1}}, func([]coord.Member) {})
				}()
				ctx, end := context.WithCancel(t.Context())
				many, other := tallied(ctx, n, task.ID{1}), tallied(t.Context(), n, task.ID{2})
				const count = 30_000
				n.Order(task.ID{1}, orders(count)...)
				time.Sleep(lease)
				answered, held := many.count()
				if answered != count || held < count/4 || held > count*3/4 {
					t.Errorf("%d of %d orders are answered, with %d permits", answered, count, held)
				}
				n.Order(task.ID{1}, coord.Order{Name: "partner/0", Number: count + 1})
				n.Order(task.ID{2}, coord.Order{Name: "other", Number: 1, Want: 1, Max: 1})
				time.Sleep(lease)
				if _, held := other.count(); held > 1 {
					t.Errorf("the other holder has %d permits of 1", held)
				}
				before := c.requests()
				time.Sleep(time.Minute)
				if most := int(time.Minute/(lease/3)) + 10; c.requests()-before > most {
					t.Errorf("%d requests in a minute in which nothing changes, want the renewals, %d", c.requests()-before, most)
				}
				if !strings.Contains(log.String(), "larger requests") || strings.Contains(log.String(), "tries again") || strings.Count(log.String(), "\n") > 1024 {
					t.Errorf("the log says\n%.2000s", log.String())
				}
				end()
				time.Sleep(2 * lease) // there is room now
				n.Order(task.ID{2}, coord.Order{Name: "another", Number: 1, Want: 1, Max: 1})
				synctest.Wait()
				if _, held := other.count(); held != 2 {
					t.Errorf("when there is room, the other holder has %d permits of 2", held)
				}
				select {
				case err := <-lost:
					t.Errorf("the node is no member any more: %v", err)
				default:
				}
			})
		})
	}
}

// All of them together are much larger than a value that the coordinator takes.
func TestThereIsRoomForTenThousandSettings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.most = 50_000
		c := m.connect(nil)
		n, other := node(t, c), node(t, m.connect(nil))
		var seen []coord.Setting
		go func() { _ = other.Watch(t.Context(), "limits", func(all []coord.Setting) { seen = all }) }()
		synctest.Wait()
		const count = 10_000
		value := []byte(strings.Repeat("v", 300))
		for i := range count {
			if _, ok, err := n.Swap(t.Context(), "limits", fmt.Sprint("partner/customer-", i), 0, value); err != nil || !ok {
				t.Fatalf("setting %d: %v", i+1, err)
			}
		}
		before := c.requests()
		written := m.bytes()
		now, ok, err := n.Swap(t.Context(), "limits", "partner", 0, value)
		if err != nil || !ok {
			t.Fatal(err)
		}
		synctest.Wait()
		if made, size := c.requests()-before, m.bytes()-written; made > 2 || size > 50*len(value) {
			t.Errorf("a change makes %d requests and writes %d bytes", made, size)
		}
		if len(seen) != count+1 || seen[0].Scope != "partner" || seen[0].Version != now.Version {
			t.Errorf("another node sees %d settings, the first of which is %+v", len(seen), seen[0])
		}
		if all, err := n.Settings(t.Context(), "limits"); err != nil || len(all) != count+1 {
			t.Errorf("there are %d settings, %v", len(all), err)
		}
		_, _, err = n.Swap(t.Context(), "limits", "large", 0, make([]byte, 60_000))
		if err == nil || !strings.Contains(err.Error(), "at most 50000") {
			t.Errorf("a setting that is too large: %v", err)
		}
	})
}
