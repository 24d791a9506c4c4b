//go:build !race

package slicer_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/taskengine/taskengine/coord/local"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
	"github.com/taskengine/taskengine/timeslice"
	"github.com/taskengine/taskengine/timeslice/slicer"
)

var (
	flagClocks = flag.Uint64("slicer.seed", 0, "the seed of the first life in which the clock is set")
	flagLives  = flag.Uint64("slicer.lives", 4, "how many such lives there are")
)

// Each instant is fetched after it has passed, though the clock is ahead again and again: also for a platform that is paused, removed or
// stopped while the clock is set back, and if no node is alive then. Only if none is alive until the right time has passed the last runs of all
// platforms, nobody can know.
func TestEachInstantIsFetchedAfterItHasPassedWheneverTheClockIsSet(t *testing.T) {
	for seed := *flagClocks; seed < *flagClocks+*flagLives; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				c := newClockLife(t, seed)
				for range 3 {
					c.round()
				}
				c.judge()
			})
		})
	}
}

// clockLife is two nodes with a clock that is set, and their platforms.
type clockLife struct {
	t      *testing.T
	random *rand.Rand
	clock  *stepped
	coord  *local.Node
	begin  time.Time
	ends   []func()
	nodes  []*node
	source timeslice.Definition
	said   []string

	mu     sync.Mutex
	down   map[string]time.Time          // guarded by mu
	inTime map[string]map[time.Time]bool // guarded by mu; by platform: the minutes that were fetched after they had passed
	early  map[string]map[time.Time]bool // guarded by mu; likewise, before
}

// newClockLife begins a life, with platforms of all kinds.
func newClockLife(t *testing.T, seed uint64) *clockLife {
	c := &clockLife{
		t: t, random: rand.New(rand.NewPCG(seed, 3)), clock: new(stepped), coord: local.New(), begin: time.Now(), down: make(map[string]time.Time),
		inTime: make(map[string]map[time.Time]bool), early: make(map[string]map[time.Time]bool),
	}
	d := definition(t, map[string]string{"interval": "5m", "retries": "1", "retry_interval": "5s", "probe": "2m"}, "plain", "quarter", "ordered", "hours", "long")
	for name, values := range map[string]map[string]string{
		"quarter": {"interval": "15m", "lag": "1m"}, "ordered": {"order": "in_order", "interval": "10m"}, "hours": {"interval": "1h"},
		"long": {"interval": "10m", "catch_up_interval": "40m", "max_open": "3"},
	} {
		own := d.Platforms[name]
		for key, text := range values {
			if err := own.Set(key, text); err != nil {
				t.Fatal(err)
			}
		}
		d.Platforms[name] = own
	}
	for name := range d.Platforms {
		c.inTime[name], c.early[name] = make(map[time.Time]bool), make(map[time.Time]bool)
	}
	first := &node{t: t, record: new(record), store: memory.New(), clock: c.clock, answer: c.answer}
	second := *first
	c.nodes = []*node{first, &second}
	c.source = d
	c.start()
	t.Cleanup(c.stop)
	return c
}

// start starts the nodes.
func (c *clockLife) start() {
	for _, n := range c.nodes {
		n.coord = c.coord.Peer()
		n.open(c.source)
		ctx, cancel := context.WithCancel(context.Background())
		var watching sync.WaitGroup
		watching.Go(func() { n.sources.Watch(ctx, n.Engine) })
		c.ends = append(c.ends, func() { cancel(); watching.Wait(); n.close() })
	}
}

// stop stops the nodes.
func (c *clockLife) stop() {
	for _, end := range c.ends {
		end()
	}
	c.ends = nil
}

func (c *clockLife) answer(w timeslice.Work, _ *task.Task) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Now().Before(c.down[w.Platform]) {
		return errors.New("the platform is down")
	}
	for at := w.Start.UTC(); at.Before(w.End); at = at.Add(time.Minute) {
		if at.Add(time.Minute).After(time.Now().Add(timeslice.Tolerance)) {
			c.early[w.Platform][at] = true
		} else {
			c.inTime[w.Platform][at] = true
		}
	}
	return nil
}

func (c *clockLife) span(from, to time.Duration) time.Duration {
	return from + time.Duration(c.random.Int64N(int64(to-from)))
}

func (c *clockLife) say(format string, args ...any) {
	c.said = append(c.said, time.Now().UTC().Format("02 15:04:05 ")+fmt.Sprintf(format, args...))
}

// round has the clock be right for a while, then ahead, then right again.
func (c *clockLife) round() {
	c.pass(c.span(time.Minute, 20*time.Minute))
	ahead, longest := c.span(5*time.Minute, time.Hour), 2
	c.mu.Lock()
	for _, early := range c.early {
		clear(early)
	}
	c.mu.Unlock()
	isNoticed := c.random.IntN(4) > 0
	if isNoticed {
		c.step(ahead)
	} else { // the clock is taken to have been ahead for as long as it is set back by
		c.stop()
		c.step(ahead)
		c.start()
		longest = 1
	}
	c.pass(c.span(3*time.Second, time.Duration(longest)*ahead-time.Minute))
	if !isNoticed {
		c.step(0)
		return
	}
	if c.random.IntN(3) > 0 {
		if c.random.IntN(4) == 0 { // in two steps
			ahead = ahead / 3
			c.step(ahead)
			c.pass(c.span(3*time.Second, 2*ahead))
		}
		c.step(0)
		return
	}
	c.say("no node is alive")
	var ran time.Time
	for name := range c.source.Platforms {
		if last := c.nodes[0].get(name).State.Ran; last.After(ran) {
			ran = last
		}
	}
	c.stop()
	time.Sleep(c.span(0, ahead))
	c.step(0)
	time.Sleep(c.span(0, ahead/2))
	if time.Until(ran) < 10*time.Second {
		for name, early := range c.early {
			maps.Copy(c.inTime[name], early)
		}
		c.say("nobody can know that the clock was set back by %v", ahead)
	}
	c.start()
}

// step sets the clock.
func (c *clockLife) step(ahead time.Duration) {
	c.say("the clock is ahead by %v", ahead)
	c.clock.ahead.Store(int64(ahead))
}

// pass lets time pass, in which people give orders and platforms are down.
func (c *clockLife) pass(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		time.Sleep(c.span(0, min(time.Until(end), 10*time.Minute)) + time.Millisecond)
		names := []string{"plain", "quarter", "ordered", "hours", "long"}
		p, n := timeslice.Platform{Source: "orders", Name: names[c.random.IntN(len(names))]}, c.nodes[c.random.IntN(len(c.nodes))]
		what, err := "", error(nil)
		switch ctx := context.Background(); c.random.IntN(7) {
		case 0, 1:
			what, err = "pause", n.sources.Pause(ctx, n.Engine, p, slicer.By{})
		case 2:
			what, err = "remove", n.sources.Remove(ctx, n.Engine, p, slicer.By{})
		case 3:
			what, err = "add", n.sources.Add(ctx, n.Engine, p, nil, slicer.By{})
		case 4:
			what = "down"
			c.mu.Lock()
			c.down[p.Name] = time.Now().Add(c.span(time.Minute, 30*time.Minute))
			c.mu.Unlock()
		default:
			what, err = "resume", n.sources.Resume(ctx, n.Engine, p, slicer.By{})
		}
		if c.say("%s %s", what, p.Name); err != nil {
			c.t.Fatal(err)
		}
	}
}

// judge ends all pauses and faults, and checks that everything was fetched.
func (c *clockLife) judge() {
	c.say("all is well")
	n := c.nodes[0]
	c.mu.Lock()
	clear(c.down)
	c.mu.Unlock()
	for name := range c.inTime {
		p := timeslice.Platform{Source: "orders", Name: name}
		if err := errors.Join(n.sources.Add(context.Background(), n.Engine, p, nil, slicer.By{}), n.sources.Resume(context.Background(), n.Engine, p, slicer.By{})); err != nil {
			c.t.Fatal(err)
		}
	}
	for range 2 {
		time.Sleep(75 * time.Minute)
		for name := range c.inTime {
			if err := n.sources.Retry(context.Background(), n.Engine, timeslice.Platform{Source: "orders", Name: name}, timeslice.Range{}, slicer.By{}); err != nil {
				c.t.Fatal(err)
			}
		}
	}
	time.Sleep(time.Minute)
	for name, inTime := range c.inTime {
		low := n.get(name).State.Low()
		if low.Before(time.Now().Add(-90 * time.Minute)) {
			c.t.Errorf("%s: the low-water mark is %v", name, low)
		}
		missing := 0
		for at := c.begin.UTC(); at.Before(low); at = at.Add(time.Minute) {
			if !inTime[at] {
				if missing++; missing == 1 {
					c.t.Errorf("%s: %v was not fetched after it had passed", name, at)
				}
			}
		}
	}
	if c.t.Failed() {
		for _, line := range c.said {
			c.t.Log(line)
		}
	}
}
