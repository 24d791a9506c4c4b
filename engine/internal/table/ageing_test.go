//go:build !race

package table

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
)

// ageing returns policies of a type in which a level of priority is worth 100 microseconds.
func ageing(names ...string) policy.Set {
	set := policy.Set{Slots: 1, Types: map[string]policy.Type{}}
	for _, name := range names {
		typ := policy.DefaultType()
		typ.Ageing = 100 * time.Microsecond
		set.Types[name] = typ
	}
	return set
}

// A task starts at the latest when all have started that became ready up to its level times the ageing
// after it. None goes before it that became ready later, whatever the order of arrival is, and how little
// of the backlog is in memory.
func TestNoTaskWaitsForThoseThatBecomeReadyAfterItsBound(t *testing.T) {
	const level = 100
	for seed := range uint64(max(5, seeds/20)) {
		rng := rand.New(rand.NewPCG(seed, 4))
		tab := New(Config{Capacity: 40, QueueCapacity: 2 + rng.IntN(20), Policies: ageing("mail", "sms")})
		finishScan(tab)
		store, waiting, seq := shelf{}, map[uint64]task.Trigger{}, uint64(0)
		for now := int64(0); now < 4000 || len(waiting) > 0; now += int64(rng.IntN(8)) {
			for range rng.IntN(3) {
				if now >= 4000 {
					break
				}
				seq++
				tr := task.Trigger{
					Ref: task.Ref{ID: task.ID{byte(seq), byte(seq >> 8)}, Version: 1}, Queue: task.Queue{Type: []string{"mail", "sms"}[rng.IntN(2)]},
					Rank: task.Rank{Priority: uint8(rng.IntN(10) * rng.IntN(2)), ReadyAt: now, Seq: seq},
				}
				store.put(tr)
				waiting[seq] = tr
				tab.Add(now, tr)
			}
			store.answerAll(tab, now)
			y, slot, ok := tab.Book(now)
			if !ok {
				continue
			}
			tab.Free(now, slot)
			store.take(y)
			delete(waiting, y.Seq)
			for _, x := range waiting {
				if y.ReadyAt > x.ReadyAt+level*int64(x.Priority) {
					t.Fatalf("seed %d: a task of priority %d waits since %d, and one of %d of priority %d goes before", seed, x.Priority, x.ReadyAt, y.ReadyAt, y.Priority)
				}
				if x.Priority <= y.Priority && x.ReadyAt < y.ReadyAt {
					t.Fatalf("seed %d: a task of priority %d waits since %d, and one of %d with priority %d, no better, goes before", seed, x.Priority, x.ReadyAt, y.ReadyAt, y.Priority)
				}
			}
		}
	}
}

// A stream of urgent tasks takes all slots, and each of them is ready before the last has started.
func TestATaskOfALowPriorityStartsThoughUrgentTasksNeverEnd(t *testing.T) {
	for _, c := range []struct {
		ageing time.Duration
		starts bool
	}{{100 * time.Microsecond, true}, {0, false}} {
		set := ageing("mail")
		typ := set.Types["mail"]
		typ.Ageing = c.ageing
		set.Types["mail"] = typ
		tab := New(Config{Capacity: 100, QueueCapacity: 4, Policies: set})
		finishScan(tab)
		store := shelf{}
		seq := uint64(0)
		put := func(now int64, priority uint8) {
			seq++
			tr := task.Trigger{Ref: task.Ref{Version: 1}, Queue: task.Queue{Type: "mail"}, Rank: task.Rank{Priority: priority, ReadyAt: now, Seq: seq}}
			store.put(tr)
			tab.Add(now, tr)
		}
		for range 20 {
			put(1, 0)
		}
		put(1, 9)
		started := int64(0)
		for now := int64(2); now < 3000 && started == 0; now++ {
			put(now, 0)
			store.answerAll(tab, now)
			tr, slot, ok := tab.Book(now)
			if !ok {
				t.Fatal("nothing could start")
			}
			store.take(tr)
			tab.Free(now, slot)
			if tr.Priority == 9 {
				started = now
			}
		}
		if c.starts != (started > 0) {
			t.Errorf("ageing %v: the task of the lowest priority started at %d", c.ageing, started)
		}
		if latest := int64(1 + 9*100 + 20 + 1); started > latest {
			t.Errorf("it started at %d, after %d: 9 levels of 100, and the 20 before it", started, latest)
		}
	}
}

func TestTasksThatAgeAreAmongThoseOfTheDefaultPriority(t *testing.T) {
	set := ageing("mail")
	set.Types["strict"] = policy.DefaultType()
	tab := New(Config{Capacity: 100, QueueCapacity: 100, Policies: set})
	finishScan(tab)
	var seq uint64
	for _, tr := range []struct {
		typ      string
		priority uint8
		at       int64
	}{
		{"strict", 4, 9000},
		{"strict", 4, 9001},
		{"mail", 0, 1400}, // as if it were of 900
		{"strict", 5, 901},
		{"strict", 5, 1000},
		{"mail", 5, 1001},
		{"mail", 9, 602}, // as if it were of 1002
		{"strict", 5, 1003},
		{"mail", 4, 1104},
		{"mail", 9, 705},
		{"strict", 6, 1},
	} {
		seq++
		tab.Add(0, task.Trigger{Ref: task.Ref{ID: task.ID{byte(seq)}, Version: 1}, Queue: task.Queue{Type: tr.typ}, Rank: task.Rank{Priority: tr.priority, ReadyAt: tr.at, Seq: 100 - seq}})
	}
	for want := byte(1); want <= byte(seq); want++ {
		tr, slot, ok := tab.Book(0)
		if !ok || tr.ID[0] != want {
			t.Fatalf("booked %+v, want number %d", tr, want)
		}
		tab.Free(0, slot)
	}
}

func TestALoadOfTasksThatAgeReadsThePrioritiesThatThereAre(t *testing.T) {
	mail := task.Queue{Type: "mail"}
	const level = 100
	for seed := range uint64(max(20, seeds/5)) {
		rng := rand.New(rand.NewPCG(seed, 5))
		store := shelf{}
		used := map[uint8]bool{}
		for seq := range uint64(rng.IntN(40)) {
			p := uint8(rng.IntN(1 + rng.IntN(10)))
			used[p] = true
			store.put(task.Trigger{Queue: mail, Rank: task.Rank{Priority: p, ReadyAt: int64(rng.IntN(500)) - 250, Seq: seq + 1}})
		}
		all := slices.Clone(store[mail])
		slices.SortFunc(all, func(a, b task.Trigger) int { return aged(a.Rank, level).Compare(aged(b.Rank, level)) })
		l := Load{Queue: mail, Limit: 1 + rng.IntN(12), Ageing: level * time.Microsecond}
		got := 0
		for end := false; !end; {
			reads := 0
			var page []task.Trigger
			page, end, _ = l.Read(func(after *task.Rank, limit int) ([]task.Trigger, error) {
				reads++
				return store.ready(mail, after, limit), nil
			})
			if want := all[got:min(got+l.Limit, len(all))]; !slices.Equal(page, want) {
				t.Fatalf("seed %d: read\n%v, want\n%v", seed, page, want)
			}
			if most := 2*len(used) + 1; reads > most {
				t.Fatalf("seed %d: %d reads for %d priorities", seed, reads, len(used))
			}
			if got += len(page); len(page) > 0 {
				l.After = aged(page[len(page)-1].Rank, level)
			}
		}
		if got != len(all) {
			t.Fatalf("seed %d: read %d rows of %d", seed, got, len(all))
		}
	}
}

func TestALoadThatFailsHasNoRows(t *testing.T) {
	broken := errors.New("broken")
	for _, ageing := range []time.Duration{0, time.Minute} {
		reads := 0
		l := Load{Limit: 1, Ageing: ageing}
		page, end, err := l.Read(func(*task.Rank, int) ([]task.Trigger, error) {
			if reads++; reads == 1 && ageing > 0 {
				return []task.Trigger{{}}, nil
			}
			return nil, broken
		})
		if len(page) > 0 || end || !errors.Is(err, broken) {
			t.Errorf("with ageing %v: %v %v %v", ageing, page, end, err)
		}
	}
}

func TestExplainsThePlaceOfATaskThatAges(t *testing.T) {
	tab := New(Config{Capacity: 100, QueueCapacity: 100, Policies: ageing("mail")})
	finishScan(tab)
	mail := task.Queue{Type: "mail"}
	for i, r := range []task.Rank{{Priority: 5, ReadyAt: 1000, Seq: 1}, {Priority: 0, ReadyAt: 1499, Seq: 2}, {Priority: 0, ReadyAt: 1501, Seq: 3}} {
		tab.Add(0, task.Trigger{Ref: task.Ref{ID: task.ID{byte(i)}, Version: 1}, Queue: mail, Rank: r})
	}
	for _, c := range []struct {
		rank  task.Rank
		ahead int
	}{
		{task.Rank{Priority: 5, ReadyAt: 1000, Seq: 1}, 1},
		{task.Rank{Priority: 9, ReadyAt: 599, Seq: 4}, 1},
		{task.Rank{Priority: 9, ReadyAt: 600, Seq: 4}, 2},
		{task.Rank{Priority: 9, ReadyAt: 602, Seq: 4}, 3},
	} {
		if x := tab.Explain(0, mail, c.rank); x.Ahead != c.ahead {
			t.Errorf("%v: %d are ahead, want %d", c.rank, x.Ahead, c.ahead)
		}
	}
}

func TestAReaderSkipsTheRestOfAPriorityThatAges(t *testing.T) {
	set := ageing("mail")
	set.Types["strict"] = policy.DefaultType()
	tab := New(Config{Capacity: 100, QueueCapacity: 2, Policies: set})
	for _, c := range []struct {
		typ      string
		priority uint8
		before   []task.Rank // are skipped
		behind   []task.Rank
	}{
		{"mail", 3, []task.Rank{{Priority: 3, ReadyAt: 1 << 60, Seq: 1 << 63}}, []task.Rank{{Priority: 4, ReadyAt: -1 << 60}}},
		{"mail", 9, []task.Rank{{Priority: 9, ReadyAt: 1 << 60}}, nil},
		{"strict", 3, []task.Rank{{Priority: 3, ReadyAt: 1}, {Priority: 9, ReadyAt: 1 << 60}}, nil},
		{"unknown", 3, []task.Rank{{Priority: 9, ReadyAt: 1 << 60}}, nil},
	} {
		to := tab.SkipTo(task.Trigger{Queue: task.Queue{Type: c.typ}, Rank: task.Rank{Priority: c.priority, ReadyAt: 1}})
		for _, r := range c.before {
			if r.Compare(to) >= 0 {
				t.Errorf("%s, priority %d: %v is not skipped", c.typ, c.priority, r)
			}
		}
		for _, r := range c.behind {
			if r.Compare(to) <= 0 {
				t.Errorf("%s, priority %d: %v is skipped", c.typ, c.priority, r)
			}
		}
	}
}
