package enginetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/filter"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

var searchScenarios = []scenario{
	{"random filters find the tasks that a scan finds, each once, while tasks change between the pages", func(n *node) {
		for _, seed := range []uint64{1, rand.Uint64()} {
			n.Logf("seed %d", seed)
			newSearches(n, seed).run(25)
		}
	}},
	{"a search of the errors of a type by their kinds says of how many tasks of these kinds it has read some", searchOfKinds},
}

func searchOfKinds(n *node) {
	fails := func(_ context.Context, t *task.Task) ([]byte, error) { return nil, errors.New(string(t.Payload)) }
	n.start(types(2, func(p *policy.Type) { p.Retry.Max = 1 }, "few", "many"), map[string]handle{"few": fails, "many": fails})
	var requests []engine.Request
	for text, of := range map[string]map[string]int{"no room": {"few": 2, "many": 1}, "no answer": {"many": 5}} {
		for typ, count := range of {
			requests = append(requests, repeat(count, func(int) engine.Request { return engine.Request{Type: typ, Payload: []byte(text)} })...)
		}
	}
	ids := n.submit(requests...)
	n.eventually("the tasks are in error", func() bool {
		return !slices.ContainsFunc(ids, func(id task.ID) bool { return n.get(id).State != task.Error })
	})
	f, err := filter.Parse("state=error type=few", time.Now())
	if err != nil {
		n.Fatal(err)
	}
	page, err := n.Search(n.ctx, f, task.ID{}, 10)
	if err != nil || len(page.Tasks) != 2 || page.Index == storage.IndexKind && (page.Read != 3 || page.Total != 3) {
		n.Errorf("found %+v, %v", page, err)
	}
	for _, id := range ids {
		if _, err := n.Cancel(n.ctx, n.get(id).Ref(), ""); err != nil {
			n.Fatal(err)
		}
	}
	n.close()
}

// RunSearch runs the scenarios of searches alone, for stores that do not run all of [Run].
func RunSearch(t *testing.T, c Config) {
	runSections(t, c, section{"search", searchScenarios}, section{"search attributes", attributeScenarios})
}

// searches compares searches by random filters with a scan. Its rows have no handler, so that only it changes them.
type searches struct {
	*node
	rand *rand.Rand
	ids  *task.IDs
	rows map[task.ID]*task.Task // the rows that there are, as Engine.Get returns them
	lost map[task.ID]bool       // rows whose payload cannot be decoded
}

// running is how many tasks run during the searches.
const running = 3

func newSearches(n *node, seed uint64) *searches {
	s := &searches{node: n, rand: rand.New(rand.NewPCG(seed, 0)), ids: task.NewIDs([32]byte{byte(seed)}), rows: make(map[task.ID]*task.Task), lost: make(map[task.ID]bool)}
	return s
}

// run makes n searches, and removes all rows.
func (s *searches) run(n int) {
	end := make(chan struct{})
	s.start(types(running, func(p *policy.Type) { p.Priority = 3 }, "held"), map[string]handle{"held": until(end)})
	held := s.submit(repeat(running, func(i int) engine.Request {
		return engine.Request{Type: "held", Key: fmt.Sprint("key", i), Payload: []byte(pick(s.rand, searchedPayloads))}
	})...)
	s.eventually("tasks run", func() bool { return s.Stats().Running == running })
	s.eventually("their rows say so", func() bool {
		return !slices.ContainsFunc(held, func(id task.ID) bool { return s.get(id).State != task.Processing })
	})
	s.read(held...)
	s.change(60)
	for range n {
		text := s.filter()
		f, err := filter.Parse(text, time.Now())
		if err != nil {
			s.Fatalf("%s: %v", text, err)
		}
		if again, err := filter.Parse(f.String(), time.Now().Add(time.Hour)); err != nil || !slices.Equal(s.scan(again), s.scan(f)) {
			s.Errorf("%s: selects other tasks as %s: %v", text, f, err)
		}
		s.counts(f)
		s.search(f)
		if s.T.Failed() {
			s.Fatal("the search failed, see above")
		}
	}
	close(end)
	s.wait(held...)
	s.read(held...)
	for _, t := range s.rows {
		if _, err := s.store.Delete(s.ctx, t.Ref()); err != nil {
			s.Fatal(err)
		}
	}
	s.close()
}

// search reads all pages of a search, and changes rows between them.
func (s *searches) search(f filter.Filter) {
	found, always := make(map[task.ID]bool), s.scan(f)
	for before, more := (task.ID{}), true; more; more = !before.IsZero() {
		limit := 1 + s.rand.IntN(12)
		page, err := s.Search(s.ctx, f, before, limit)
		if err != nil {
			s.Fatalf("%s: %v", f, err)
		}
		if len(page.Tasks) > limit || page.Read < len(page.Tasks) {
			s.Errorf("%s: %d tasks of %d rows, at most %d tasks were asked for", f, len(page.Tasks), page.Read, limit)
		}
		of := s.total(f, page.Index)
		if !before.IsZero() {
			of = 0
		}
		if page.Total != of {
			s.Errorf("%s: %d rows were read of %d, not of %d, by the index %q", f, page.Read, page.Total, of, page.Index)
		}
		last := before
		for _, t := range page.Tasks {
			switch {
			case found[t.ID]:
				s.Errorf("%s: %v was found twice", f, t.ID)
			case !last.IsZero() && t.ID.Compare(last) >= 0:
				s.Errorf("%s: %v is not older than %v", f, t.ID, last)
			case s.rows[t.ID] == nil || !s.selects(f, t.ID):
				s.Errorf("%s: found %+v", f, t)
			case t.Payload != nil || t.Result != nil || t.Version != s.rows[t.ID].Version && t.OrderingKey == "":
				s.Errorf("%s: found %+v, not %+v", f, t, s.rows[t.ID])
			}
			found[t.ID], last = true, t.ID
		}
		if !page.Next.IsZero() && !last.IsZero() && page.Next.Compare(last) > 0 || s.T.Failed() {
			s.Fatalf("%s: after %v the next page begins at %v", f, last, page.Next)
		}
		if before = page.Next; !before.IsZero() && s.rand.IntN(3) > 0 {
			s.change(1 + s.rand.IntN(6))
			always = slices.DeleteFunc(always, func(id task.ID) bool { return !s.selects(f, id) })
		}
	}
	for _, id := range always {
		if !found[id] {
			s.Errorf("%s: did not find %+v", f, s.rows[id])
		}
	}
}

// total returns of how many rows a search by an index says that they were.
func (s *searches) total(f filter.Filter, index string) (n int64) {
	b, possible := f.Bounds()
	_, live := s.store.(storage.LiveCounter)
	live = live && index != storage.IndexKind
	_, counted := s.store.(storage.KindCounter)
	switch {
	case !possible || index == storage.IndexID || index == storage.IndexKey || index != "" && b.Exact && (b.Types == nil || index == storage.IndexType && b.States == nil):
		return 0
	case !live && (!counted || index == "" || len(b.States) != 1 || b.States[0] != task.Error):
		return 0
	}
	kinds := b.Kinds
	if kinds == nil { // an index of kinds has served the types
		for _, t := range s.rows {
			if kind := task.KindOfError(t.LastError); t.State == task.Error && slices.Contains(b.Types, t.Type) {
				kinds = append(kinds, task.KindRange{From: kind, To: kind})
			}
		}
	}
	for _, t := range s.rows {
		switch {
		case index == storage.IndexState && !slices.Contains(b.States, t.State):
		case index == storage.IndexType && !slices.Contains(b.Types, t.Type):
		case index == storage.IndexKind && !slices.ContainsFunc(kinds, func(r task.KindRange) bool { return r.Has(task.KindOfError(t.LastError)) }):
		case !live && (t.State != task.Error || t.LastError == ""):
		default:
			n++
		}
	}
	return n
}

// scan returns the ids of the rows that f selects, by reading all.
func (s *searches) scan(f filter.Filter) (ids []task.ID) {
	for id := range s.rows {
		if s.selects(f, id) {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, task.ID.Compare)
	return ids
}

// selects reports whether f selects the row.
func (s *searches) selects(f filter.Filter, id task.ID) bool {
	t := s.rows[id]
	return t != nil && f.Selects(t) && (f.OfRows() || !s.lost[id])
}

// counts compares the numbers of the tasks that f selects, by state and type and by the kind of their error.
func (s *searches) counts(f filter.Filter) {
	want, kinds, failed := make(map[storage.StateType]int64), make(map[task.ErrorKind]int), 0
	b, possible := f.Bounds()
	for _, id := range s.scan(f) {
		t := s.rows[id]
		want[storage.StateType{State: t.State, Type: t.Type}]++
		if t.LastError != "" && (b.States != nil || t.State == task.Error) {
			kinds[task.KindOfError(t.LastError)]++
			failed++
		}
	}
	got, err := s.CountWhere(s.ctx, f)
	if err != nil || got.Partial || !maps.Equal(got.Counts, want) {
		s.Errorf("%s: counted %+v, %v, not %v", f, got, err, want)
	}
	all, err := s.Errors(s.ctx, f, 1000)
	if errors.Is(err, engine.ErrInvalid) && !f.OfRows() {
		return
	}
	if err != nil || !all.Complete || all.Tasks != failed || all.Others != 0 || len(all.Kinds) != len(kinds) && possible {
		s.Errorf("%s: %+v, %v, not %d tasks of kinds %v", f, all, err, failed, kinds)
	}
	for _, k := range all.Kinds {
		if kinds[k.Kind] != k.Tasks {
			s.Errorf("%s: %d tasks of kind %v, not %d", f, k.Tasks, k.Kind, kinds[k.Kind])
		}
	}
}

// change makes n changes: it adds rows, changes them and deletes them.
func (s *searches) change(n int) {
	var ids []task.ID
	if err := s.store.Update(s.ctx, func(tx storage.Tx) error {
		ids = ids[:0]
		var keys []string
		for range n {
			id, key, err := s.step(tx)
			if err != nil {
				return err
			}
			ids = append(ids, id)
			if key != "" {
				keys = append(keys, key)
			}
		}
		_, err := tx.Promote(s.ctx, keys...)
		return err
	}); err != nil {
		s.Fatal(err)
	}
	s.read(ids...)
}

// read reads rows that have changed.
func (s *searches) read(ids ...task.ID) {
	for _, id := range ids {
		t, err := s.Get(s.ctx, id)
		if s.lost[id] = errors.Is(err, engine.ErrUnreadable); err != nil && !s.lost[id] && !errors.Is(err, task.ErrNotFound) {
			s.Fatal(err)
		}
		if delete(s.rows, id); t != nil {
			s.rows[id] = t
		}
	}
}

// step makes one change, and returns the id and the ordering key of its row.
func (s *searches) step(tx storage.Tx) (task.ID, string, error) {
	known := slices.SortedFunc(maps.Keys(s.rows), task.ID.Compare)
	if len(known) <= 30 || s.rand.IntN(5) == 0 {
		t := s.row()
		_, err := tx.Insert(s.ctx, t)
		return t.ID, t.OrderingKey, err
	}
	t := s.rows[pick(s.rand, known)]
	if t.Type == "held" {
		return t.ID, "", nil
	}
	if s.rand.IntN(12) == 0 {
		_, err := tx.Delete(s.ctx, t.Ref())
		return t.ID, t.OrderingKey, err
	}
	present, err := tx.Get(s.ctx, t.ID)
	if errors.Is(err, task.ErrNotFound) {
		return t.ID, "", nil
	} else if err != nil {
		return t.ID, "", err
	}
	_, err = tx.Swap(s.ctx, s.edit(present))
	return t.ID, t.OrderingKey, err
}
