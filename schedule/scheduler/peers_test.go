package scheduler_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/local"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/schedule"
	"github.com/taskengine/taskengine/schedule/scheduler"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
)

// peer is a node with a store of its own.
type peer struct {
	scheduler.Schedules
	engine *engine.Engine
	link   *local.Node
	end    func()
}

// openPeer starts a node with a store of its own. Its tasks of type report are noted with its name.
func openPeer(t testing.TB, name string, link *local.Node, store storage.Store, noted *book, edits ...func(*engine.Config)) *peer {
	t.Helper()
	return openPeerAt(t, name, link, link, store, noted, edits...)
}

func openPeerAt(t testing.TB, name string, link *local.Node, settings coord.Config, store storage.Store, noted *book, edits ...func(*engine.Config)) *peer {
	t.Helper()
	report := func(ctx context.Context, t *task.Task) ([]byte, error) {
		noted.note("%s@%s", t.Headers[schedule.HeaderTime], name)
		d, _ := time.ParseDuration(t.Headers["takes"])
		select {
		case <-time.After(d):
			return nil, nil
		case <-ctx.Done():
			noted.note("cancelled %s@%s", t.Headers[schedule.HeaderTime], name)
			return nil, ctx.Err()
		}
	}
	long := policy.DefaultType()
	long.Timeout.Run = 0
	conf := engine.Config{
		Store: store, Name: name, Policies: policy.Set{Types: map[string]policy.Type{"report": long, schedule.Type: scheduler.TypePolicy()}},
		Handlers:    map[string]task.Handler{"report": task.HandlerFunc(report), schedule.Type: scheduler.Handler},
		Coordinator: coord.Coordinator{Settings: settings, Peers: link},
	}
	for _, edit := range edits {
		edit(&conf)
	}
	e, err := engine.Open(t.Context(), conf)
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{engine: e, Schedules: scheduler.Of(e), link: link}
	ctx, stop := context.WithCancel(context.Background())
	var following sync.WaitGroup
	following.Go(func() { p.Follow(ctx, slog.New(slog.DiscardHandler)) })
	p.end = func() {
		stop()
		following.Wait()
		shut(t, e)
	}
	return p
}

// kill ends a node as far as the others see it: it is cut off, and can say nothing.
func (p *peer) kill(t testing.TB) {
	p.link.Close()
	p.end()
}

func hourly(overlap schedule.Overlap) schedule.Definition {
	return schedule.Definition{Every: time.Hour, Overlap: overlap, Task: schedule.Template{Type: "report"}}
}

// hours returns the hours of the fires that were noted, without the names of the nodes, sorted.
func hours(lines string) (all []string) {
	for line := range strings.SplitSeq(lines, ", ") {
		at, _, _ := strings.Cut(line, "@")
		all = append(all, strings.TrimSuffix(strings.TrimPrefix(at, "2000-01-"), ":00:00Z"))
	}
	slices.Sort(all)
	return all
}

func TestAScheduleOfNodesWithStoresOfTheirOwnFiresOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		noted, link := new(book), local.New()
		var peers []*peer
		for i := range 3 {
			peers = append(peers, openPeer(t, fmt.Sprint("n", i), link.Peer(), memory.New(), noted))
		}
		for i, p := range peers {
			if out, err := p.Apply(t.Context(), "hourly", hourly(schedule.Allow)); err != nil || i == 0 && out != scheduler.Created {
				t.Fatal(i, out, err)
			}
		}
		time.Sleep(10*time.Hour + 30*time.Minute)
		if got, want := fmt.Sprint(hours(noted.take())), "[01T01 01T02 01T03 01T04 01T05 01T06 01T07 01T08 01T09 01T10]"; got != want {
			t.Errorf("it has fired at %v, not at %v", got, want)
		}
		var shown []string
		for _, p := range peers {
			all, _, err := p.List(t.Context(), scheduler.Query{}, "", 10)
			if err != nil || len(all) != 1 {
				t.Fatal(all, err)
			}
			s := all[0]
			shown = append(shown, fmt.Sprint(s.Name, s.Next, s.State.Last, s.State.Fires, s.Holder))
		}
		if len(slices.Compact(slices.Clone(shown))) != 1 {
			t.Errorf("the nodes show %q", shown)
		}
		for _, p := range peers {
			p.end()
		}
	})
}

// threePeers starts three nodes with a schedule, and calls fn while it is not their turn to fire.
func threePeers(t *testing.T, d schedule.Definition, fn func(t *testing.T, noted *book, peers []*peer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		noted, link := new(book), local.New()
		var peers []*peer
		for i := range 3 {
			peers = append(peers, openPeer(t, fmt.Sprint("n", i), link.Peer(), memory.New(), noted))
		}
		if _, err := peers[0].Apply(t.Context(), "shared", d); err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Minute)
		fn(t, noted, peers)
		for _, p := range peers {
			if p != nil {
				p.end()
			}
		}
	})
}

// holder returns the number of the node that fires.
func holder(t *testing.T, peers []*peer) int {
	t.Helper()
	for _, p := range peers {
		if p == nil {
			continue
		}
		s, err := p.Get(t.Context(), "shared")
		if err != nil {
			t.Fatal(err)
		}
		return slices.IndexFunc(peers, func(p *peer) bool { return p != nil && p.engine.Name() == s.Holder })
	}
	return -1
}

func TestAnotherNodeTakesAScheduleOverWhenItsNodeDies(t *testing.T) {
	threePeers(t, hourly(schedule.Allow), func(t *testing.T, noted *book, peers []*peer) {
		for range 2 {
			time.Sleep(time.Hour)
			i := holder(t, peers)
			peers[i].kill(t)
			peers[i] = nil
		}
		time.Sleep(2 * time.Hour)
		text := noted.take()
		if got, want := fmt.Sprint(hours(text)), "[01T01 01T02 01T03 01T04]"; got != want {
			t.Errorf("it has fired at %v, not at %v", text, want)
		}
	})
}

func TestOrdersOfPeopleReachTheNodeThatFires(t *testing.T) {
	threePeers(t, hourly(schedule.Skip), func(t *testing.T, noted *book, peers []*peer) {
		time.Sleep(time.Hour)
		noted.take()
		other := peers[(holder(t, peers)+1)%3]
		if err := other.Pause(t.Context(), "shared", "repair"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Hour)
		for _, p := range peers {
			if s, err := p.Get(t.Context(), "shared"); err != nil || s.State.Paused == nil || !s.Next.IsZero() {
				t.Errorf("%s has %+v, %v", p.engine.Name(), s, err)
			}
		}
		id, err := other.Trigger(t.Context(), "shared")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if text := noted.take(); strings.Count(text, "@") != 1 {
			t.Errorf("in a pause there are reports of %q", text)
		}
		if triggered, err := peers[holder(t, peers)].engine.Get(t.Context(), id); err != nil || triggered.State != task.Done {
			t.Errorf("the triggered task is %+v, %v", triggered, err)
		}
		if err := other.Resume(t.Context(), "shared"); err != nil {
			t.Fatal(err)
		}
		if err := other.Backfill(t.Context(), "shared", schedule.Backfill{From: time.Date(2000, 1, 1, 1, 0, 0, 0, time.UTC), To: time.Date(2000, 1, 1, 3, 0, 0, 0, time.UTC)}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if got := fmt.Sprint(hours(noted.take())); got != "[01T01 01T02 01T03]" {
			t.Errorf("the backfill has added %v", got)
		}
		daily := hourly(schedule.Skip)
		daily.Cron, daily.Every = "0 0 * * *", 0
		if out, err := other.Apply(t.Context(), "shared", daily); err != nil || out != scheduler.Updated {
			t.Fatal(out, err)
		}
		time.Sleep(21 * time.Hour)
		if got := fmt.Sprint(hours(noted.take())); got != "[02T00]" {
			t.Errorf("with another definition it has fired at %v", got)
		}
		if err := other.Delete(t.Context(), "shared"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(24 * time.Hour)
		if got := noted.take(); got != "" {
			t.Errorf("after it was deleted it has fired at %v", got)
		}
	})
}

// block has a node take none of the schedules any more, as long tasks that hold all slots do. The node is alive.
func (p *peer) block(t testing.TB) {
	t.Helper()
	if err := p.engine.Pause(t.Context(), schedule.Type); err != nil {
		t.Fatal(err)
	}
}

func TestASharedScheduleIsLateWhenNoNodeFiresIt(t *testing.T) {
	threePeers(t, hourly(schedule.Skip), func(t *testing.T, _ *book, peers []*peer) {
		late := func() (times []string) {
			for _, p := range peers {
				all, _, err := p.Late(t.Context(), p.engine.Now(), task.ID{}, 10)
				if err != nil {
					t.Fatal(err)
				}
				for _, one := range all {
					times = append(times, one.Name+one.Since.UTC().Format("@15:04"))
				}
			}
			return times
		}
		time.Sleep(time.Hour)
		if all := late(); len(all) != 0 {
			t.Errorf("a schedule that fires is late: %v", all)
		}
		for _, p := range peers {
			p.block(t)
		}
		time.Sleep(time.Hour)
		if got, want := fmt.Sprint(late()), "[shared@02:00 shared@02:00 shared@02:00]"; got != want {
			t.Errorf("late are %v, not %v", got, want)
		}
	})
}
