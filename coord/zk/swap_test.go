//go:build unix

package zk

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/taskengine/taskengine/coord/cells"
)

// Of many changes some are of nodes that another connection has changed: early, late, in a row, removed and created.
func TestAFewNodesThatHaveChangedDoNotCostATransactionForEachOther(t *testing.T) {
	t.Parallel()
	s := newStore(Options{Endpoints: []string{startServer(t)}, Prefix: "/swap", Lease: time.Minute})
	t.Cleanup(s.close)
	other := newStore(s.options)
	t.Cleanup(other.close)
	const count = 60
	keyOf := func(i int) string { return fmt.Sprintf("live/permit/%03d", i) }
	var made []cells.Change
	for i := range count {
		made = append(made, cells.Change{Was: cells.Cell{Key: keyOf(i)}, Value: []byte("a")})
	}
	outcomes, err := s.Swap(t.Context(), made[:count-2]...)
	if err != nil {
		t.Fatal(err)
	}
	stale := []int{3, 4, 31, count - 3, count - 1}
	for _, i := range stale {
		all, err := other.Read(t.Context(), keyOf(i))
		if err != nil {
			t.Fatal(err)
		}
		change := cells.Change{Was: all[0], Value: []byte("b")}
		if i == 31 {
			change.Value = nil
		}
		if out, err := other.Swap(t.Context(), change); err != nil || !out[0].Swapped {
			t.Fatal(out, err)
		}
	}
	changes := made[count-2:]
	for _, o := range outcomes {
		changes = append(changes, cells.Change{Was: o.Now, Value: []byte("c")})
	}
	before := transactions(t, s)
	outcomes, err = s.Swap(t.Context(), changes...)
	if err != nil {
		t.Fatal(err)
	}
	if made := transactions(t, s) - before - 1; made != 2 {
		t.Errorf("%d transactions were made, want one that is refused, and one without the changed nodes", made)
	}
	for at, o := range outcomes {
		i := (at + count - 2) % count
		isStale := slices.Contains(stale, i)
		want := "b"
		switch {
		case i >= count-2 && !isStale:
			want = "a"
		case !isStale:
			want = "c"
		case i == 31:
			want = ""
		}
		if o.Swapped == isStale || o.Now.Key != keyOf(i) || string(o.Now.Value) != want {
			t.Errorf("of cell %d the outcome is %+v, want %q", i, o, want)
		}
	}
}

// transactions returns the number of the latest transaction, which it makes.
func transactions(t *testing.T, s *store) int64 {
	t.Helper()
	c, err := s.conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	stat, err := c.Set(s.path(clockNode), nil, -1)
	if err != nil {
		t.Fatal(err)
	}
	return stat.Mzxid
}
