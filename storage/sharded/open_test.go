package sharded_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/sharded"
	"github.com/taskengine/taskengine/task"
)

func TestOpenSaysWhatIsWrongWithThePlaces(t *testing.T) {
	whole := func(name string) *backend { return newBackend(name, task.AllShards()) }
	leaving := newBackend("b", shards(128, 199))
	leaving.settle(func(h *storage.Holdings) { h.Migrating, h.To = shards(200, 255), "a" })
	broken := whole("a")
	broken.fail(errors.New("the disk is gone"))
	for _, c := range []struct {
		name     string
		backends []*backend
		want     string // part of the error; "" is none
	}{
		{"one that holds all", []*backend{whole("a")}, ""},
		{"parts that make all", backends(5), ""},
		{"one that holds nothing yet", []*backend{whole("a"), newBackend("b", task.Shards{})}, ""},
		{"shards on their way", []*backend{newBackend("a", shards(0, 127)), leaving}, ""},
		{"as many as there may be", backends(sharded.MaxDatabases), ""},
		{"none", nil, "there are 0 databases, want 1 to 64"},
		{"too many", backends(sharded.MaxDatabases + 1), "there are 65 databases, want 1 to 64"},
		{"one without a name", []*backend{whole("")}, "a database has no name"},
		{"a name twice", []*backend{whole("a"), newBackend("b", task.Shards{}), newBackend("a", task.Shards{})}, "two databases have the name a"},
		{"shards that nobody holds", backends(3)[:2], "no database holds the shards 170-255; is one missing in storage.databases, or restored from an older backup?"},
		{"shards that two hold", []*backend{whole("a"), newBackend("b", shards(3, 7))}, "the shards 3-7 are held by a and by b; one of them is a copy"},
		{"one that does not answer", []*backend{broken, newBackend("b", task.Shards{})}, "look which shards are where: a: the disk is gone"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var named []sharded.Database
			for i, p := range c.backends {
				if len(c.backends) > 26 {
					p.name = fmt.Sprint("backend ", i)
				}
				named = append(named, sharded.Database{Name: p.name, Store: p})
			}
			_, err := sharded.Open(t.Context(), named, nil)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// late is a backend that calls first when it has been asked for its shards for the first time.
type late struct {
	*backend
	first func()
}

func (l *late) Holdings(ctx context.Context) (storage.Holdings, error) {
	h, err := l.backend.Holdings(ctx)
	if l.first != nil {
		l.first()
		l.first = nil
	}
	return h, err
}

func TestAMoveWhileThePlacesAreAskedDoesNotLookLikeTwoHolders(t *testing.T) {
	ps := backends(2)
	asked := make(chan struct{})
	a := &late{backend: ps[0]} // it answers, and then its shards are moved
	a.first = func() {
		move(t, ps[0], ps[1], shards(0, 127), nil)
		close(asked)
	}
	b := &waiting{ps[1], asked}
	if _, err := sharded.Open(t.Context(), []sharded.Database{{Name: "a", Store: a}, {Name: "b", Store: b}}, nil); err != nil {
		t.Error(err)
	}
}

// waiting answers with its shards when others have been asked.
type waiting struct {
	*backend
	asked chan struct{}
}

func (w *waiting) Holdings(ctx context.Context) (storage.Holdings, error) {
	select {
	case <-w.asked:
		return w.backend.Holdings(ctx)
	case <-ctx.Done():
		return storage.Holdings{}, ctx.Err()
	}
}
