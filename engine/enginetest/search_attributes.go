package enginetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/filter"
	"github.com/taskengine/taskengine/task"
)

var attributeScenarios = []scenario{
	{"random filters on search attributes find the tasks that a scan finds, while types declare others", func(n *node) {
		s := newSearches(n, rand.Uint64())
		if n.config.Codec != nil {
			return // it may encrypt payloads
		}
		indexed := 0
		for _, declared := range []map[string][]string{
			{},
			{"mail": {"payload.customer.id"}, "pay": {"payload.customer.id", "headers.tenant"}},
			{"mail": {"headers.tenant"}, "pay": {"payload.customer.id", "payload.tags"}},
			{"pay": {"payload.items.sku", "headers.tenant", "payload.tags"}},
			{"mail": {"payload.customer.id"}, "pay": {"payload.customer.id", "headers.tenant"}},
		} {
			set := types(running, nil, "mail", "pay")
			for name, places := range declared {
				p := set.Types[name]
				p.Search, p.Paused = places, true
				set.Types[name] = p
			}
			s.start(set, nil)
			s.awaitIndexes(declared)
			for range 3 {
				s.addSearched()
				for range 12 {
					indexed += s.searchAttributes()
				}
			}
			s.close()
		}
		if indexed < 20 {
			n.Errorf("only %d pages were found by an index", indexed)
		}
		for id := range s.rows {
			if t, err := s.store.Get(s.ctx, id); err != nil {
				n.Fatal(err)
			} else if _, err := s.store.Delete(s.ctx, t.Ref()); err != nil {
				n.Fatal(err)
			}
		}
	}},
}

// awaitIndexes waits until each attribute has an index.
func (s *searches) awaitIndexes(declared map[string][]string) {
	for typ, places := range declared {
		for _, place := range places {
			f := s.parse(fmt.Sprintf("type=%s %s=none", typ, place))
			s.eventually(place+" has an index", func() bool {
				page, err := s.Search(s.ctx, f, task.ID{}, 1)
				return err == nil && page.Index != "" && strings.HasSuffix(place, strings.TrimPrefix(page.Index, "header"))
			})
		}
	}
}

func (s *searches) parse(text string) filter.Filter {
	s.Helper()
	f, err := filter.Parse(text, time.Now())
	if err != nil {
		s.Fatalf("%s: %v", text, err)
	}
	return f
}

// addSearched adds tasks, and gives others values.
func (s *searches) addSearched() {
	ids := s.submit(repeat(8, func(i int) engine.Request {
		r := engine.Request{Type: []string{"mail", "pay"}[i%2], Headers: pick(s.rand, searchedHeaders), Payload: []byte(pick(s.rand, searchedPayloads))}
		if i%3 > 0 {
			r.At = time.Now().Add(time.Duration(i%3) * time.Hour)
		}
		return r
	})...)
	s.read(ids...)
	for id := range s.rows {
		switch tenant := pick(s.rand, []string{"t7", "t8"}); s.rand.IntN(6) {
		case 0:
			s.set(id, engine.Values{Headers: map[string]*string{"tenant": &tenant}, By: "ann"})
		case 1:
			s.set(id, engine.Values{Payload: new([]byte(pick(s.rand, searchedPayloads))), By: "ann"})
		case 2:
			if t := s.rows[id]; t.State.Live() {
				if _, err := s.Cancel(s.ctx, t.Ref(), ""); err != nil {
					s.Fatal(err)
				}
				s.read(id)
			}
		}
	}
}

// set gives a task that waits for its time other values. The engine would change one that is submitted once more.
func (s *searches) set(id task.ID, v engine.Values) {
	action, err := engine.Setting(v)
	if err != nil {
		s.Fatal(err)
	}
	if t := s.rows[id]; t.State == task.Waiting {
		if _, err := s.Do(s.ctx, t.Ref(), action); err != nil {
			s.Fatal(err)
		}
	}
	s.read(id)
}

// searchAttributes searches by a random filter, and returns how many of its pages an index of an attribute has found.
func (s *searches) searchAttributes() (indexed int) {
	text := "type=" + pick(s.rand, []string{"mail", "pay", "pay,mail"})
	for range 1 + s.rand.IntN(2) {
		text += " " + pick(s.rand, []string{
			"payload.customer.id=17", `payload.customer.id="17",170`, "payload.customer.id=170", "header.tenant=t7", `header.tenant=t8,"T8, x"`, "payload.tags=red,none", "payload.items.sku=x2",
			"state=waiting", "state=cancelled,submitted", "payload.amount>0", "payload.customer.id!=17", `header.tenant=""`, "header.tenant=t*",
		})
	}
	f := s.parse(text)
	var got []task.ID
	for before, more := (task.ID{}), true; more; more = !before.IsZero() {
		page, err := s.Search(s.ctx, f, before, 1+s.rand.IntN(12))
		if err != nil {
			s.Fatalf("%s: %v", f, err)
		}
		if strings.Contains(page.Index, ".") {
			indexed++
		}
		for _, t := range page.Tasks {
			got = append(got, t.ID)
		}
		before = page.Next
	}
	want := s.scan(f)
	slices.Reverse(want)
	if !slices.Equal(got, want) {
		s.Fatalf("%s: found %v, not %v", f, got, want)
	}
	return indexed
}
