//go:build unix

package orders_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const lease = 2 * time.Second // of the file

var platforms = []string{"shop", "market", "depot"} // never changed

// storm is what happens to the nodes, the servers and the platforms.
type storm struct {
	t      *testing.T
	w      *world
	f      *fleet
	random *rand.Rand
	behind sync.WaitGroup                // what goes on while other events come
	busy   map[string]chan struct{}      // by the name of a node, a platform or a server: closed when the event behind is over that is about it
	moved  map[string]map[time.Time]bool // by platform: when its cursor was moved
}

func newStorm(t *testing.T, w *world, f *fleet) *storm {
	s := &storm{t: t, w: w, f: f, random: rand.New(rand.NewPCG(*seed, 0)), busy: make(map[string]chan struct{}), moved: make(map[string]map[time.Time]bool)}
	for _, name := range platforms {
		s.moved[name] = make(map[time.Time]bool)
	}
	return s
}

// rage lets each event come once, in random order, and goes on with that until the time is over.
func (s *storm) rage(atLeast time.Duration) {
	events := []func(){s.kill, s.kill, s.freeze, s.set, s.set, s.pause, s.reset, s.coordinator, s.outage}
	if atLeast > 0 {
		events = append(events, s.store)
	}
	for begin := time.Now(); ; {
		s.random.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
		for _, event := range events {
			time.Sleep(time.Duration(s.random.IntN(600)) * time.Millisecond) // any moment is the right one
			event()
			if s.t.Failed() {
				break
			}
		}
		if time.Since(begin) >= atLeast || s.t.Failed() {
			break
		}
	}
	s.behind.Wait()
}

// meanwhile does something about a node, a platform or a server while other events come.
func (s *storm) meanwhile(name string, do func()) {
	s.idle(name)
	over := make(chan struct{})
	s.busy[name] = over
	s.behind.Go(func() {
		defer close(over)
		do()
	})
}

// idle returns one of some names, when no event behind is about it.
func (s *storm) idle(names ...string) string {
	name := names[s.random.IntN(len(names))]
	if before := s.busy[name]; before != nil {
		<-before
	}
	return name
}

func (s *storm) kill() {
	name := s.idle("n1", "n2", "n3")
	say("kill -9 %s, and start it again", name)
	s.f.end(s.t, name, syscall.SIGKILL)
	s.f.start(s.t, name)
}

func (s *storm) freeze() {
	name := s.idle("n1", "n2", "n3")
	pause := lease + time.Duration(500+s.random.IntN(1500))*time.Millisecond
	say("kill -STOP %s for %v: its lease of %v ends meanwhile", name, pause, lease)
	s.meanwhile(name, func() { s.f.freeze(s.t, name, pause) })
}

func (s *storm) set() {
	name := []string{"orders", "orders/shop", "orders/market", "orders/depot"}[s.random.IntN(4)]
	values := []string{"interval=2s", "interval=1s", "interval=1500ms", "interval=", "catch_up_interval=8s", "max_open=3", "threads.cluster=1", "threads.cluster=", "order=in_order", "order="}
	value := values[s.random.IntN(len(values))]
	say("taskengine source set %s %s", name, value)
	s.f.ask(s.t, "source", "set", name, value)
}

func (s *storm) pause() {
	name := s.idle("shop", "market")
	pause := time.Duration(500+s.random.IntN(1500)) * time.Millisecond
	say("taskengine source pause orders/%s, and resume it after %v", name, pause)
	s.meanwhile(name, func() {
		s.f.ask(s.t, "source", "pause", "orders/"+name)
		time.Sleep(pause)
		s.f.ask(s.t, "source", "resume", "orders/"+name)
	})
}

func (s *storm) reset() {
	name := s.idle("shop", "market")
	var cursor time.Time // a reset to a later time would leave out what is before
	await(s.t, name+" has begun", func() bool {
		cursor = s.f.platform(s.t, name).Cursor
		return cursor.After(s.w.since.Add(20 * time.Second))
	})
	to := cursor.Add(-time.Duration(3+s.random.IntN(15)) * time.Second).UTC().Truncate(time.Second).Format(time.RFC3339)
	say("taskengine source reset orders/%s --to %s: what comes then is fetched once more", name, to)
	if _, err := s.f.try(s.t, "source", "reset", "orders/"+name, "--to", to); err != nil {
		say("it may have been carried out: %v", err)
	}
	s.note()
}

// note notes how often cursors were moved.
func (s *storm) note() {
	for _, name := range platforms {
		for _, one := range s.f.platform(s.t, name).History {
			if strings.HasPrefix(one.What, "reset the cursor") {
				s.moved[name][one.At] = true
			}
		}
	}
}

// resets returns how often cursors were moved, for the witness.
func (s *storm) resets() string {
	var all []string
	for _, name := range platforms {
		all = append(all, fmt.Sprint(name, "=", len(s.moved[name])))
	}
	return strings.Join(all, ",")
}

func (s *storm) coordinator() {
	pause := time.Duration(s.random.IntN(4000)) * time.Millisecond
	say("etcd is killed, and comes back after %v", pause)
	s.meanwhile("etcd", func() {
		err := s.w.etcd.Kill(0)
		time.Sleep(pause)
		if err == nil {
			err = s.w.etcd.Restart(0)
		}
		if err != nil {
			s.t.Error(err)
		}
	})
}

// outage ends when the breaker of the platform has stopped it.
func (s *storm) outage() {
	name := s.idle("depot")
	say("%s is down", name)
	s.w.control(s.t, http.MethodPost, "down/"+name)
	s.meanwhile(name, func() {
		await(s.t, "the breaker stops the platform", func() bool { return s.f.platform(s.t, name).Stopped != nil || s.t.Failed() })
		say("the breaker has stopped %s, and it comes back", name)
		s.w.control(s.t, http.MethodPost, "up/"+name)
	})
}

func (s *storm) store() {
	say("PostgreSQL crashes, and is started again")
	err := server.Crash()
	if err == nil {
		err = server.Restart()
	}
	if err != nil {
		s.t.Error(err)
	}
}
