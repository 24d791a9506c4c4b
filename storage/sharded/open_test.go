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
	whole := func(name string) *place { return newPlace(name, task.AllShards()) }
	leaving := newPlace("b", shards(128, 199))
	leaving.settle(func(h *storage.Holdings) { h.Migrating, h.To = shards(200, 255), "a" })
	broken := whole("a")
	broken.fail(errors.New("the disk is gone"))
	for _, c := range []struct {
		name   string
		places []*place
		want   string // part of the error; "" is none
	}{
		{"one that holds all", []*place{whole("a")}, ""},
		{"parts that make all", places(5), ""},
		{"one that holds nothing yet", []*place{whole("a"), newPlace("b", task.Shards{})}, ""},
		{"shards on their way", []*place{newPlace("a", shards(0, 127)), leaving}, ""},
		{"as many as there may be", places(sharded.MaxDatabases), ""},
		{"none", nil, "there are 0 databases, want 1 to 64"},
		{"too many", places(sharded.MaxDatabases + 1), "there are 65 databases, want 1 to 64"},
		{"one without a name", []*place{whole("")}, "a database has no name"},
		{"a name twice", []*place{whole("a"), newPlace("b", task.Shards{}), newPlace("a", task.Shards{})}, "two databases have the name a"},
		{"shards that nobody holds", places(3)[:2], "no database holds the shards 170-255; is one missing in storage.databases, or restored from an older backup?"},
		{"shards that two hold", []*place{whole("a"), newPlace("b", shards(3, 7))}, "the shards 3-7 are held by a and by b; one of them is a copy"},
		{"one that does not answer", []*place{broken, newPlace("b", task.Shards{})}, "look which shards are where: a: the disk is gone"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var named []sharded.Database
			for i, p := range c.places {
				if len(c.places) > 26 {
					p.name = fmt.Sprint("place ", i)
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

// late is a place that calls first when it has been asked for its shards for the first time.
type late struct {
	*place
	first func()
}

func (l *late) Holdings(ctx context.Context) (storage.Holdings, error) {
	h, err := l.place.Holdings(ctx)
	if l.first != nil {
		l.first()
		l.first = nil
	}
	return h, err
}

func TestAMoveWhileThePlacesAreAskedDoesNotLookLikeTwoHolders(t *testing.T) {
	ps := places(2)
	asked := make(chan struct{})
	a := &late{place: ps[0]} // it answers, and then its shards are moved
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
	*place
	asked chan struct{}
}

func (w *waiting) Holdings(ctx context.Context) (storage.Holdings, error) {
	select {
	case <-w.asked:
		return w.place.Holdings(ctx)
	case <-ctx.Done():
		return storage.Holdings{}, ctx.Err()
	}
}
